"""The awaitable Sandbox, whose calls the stop button of a notebook reaches."""

from __future__ import annotations

from swe_sdk._wakeful import wakeful
from swe_sdk.sandbox import sandbox as plain


class Sandbox(plain.Sandbox):
    """A box of a task's environment, open between ``async with`` and its end (or ``start`` and ``close``).

    ``target`` is a task, an environment (built on first use), a prepared environment, or None for the provider's bare
    base system. ``snapshot`` is what an earlier ``snapshot()`` of the same target returned.
    """

    start = wakeful(plain.Sandbox.start)
    exec = wakeful(plain.Sandbox.exec)
    read_bytes = wakeful(plain.Sandbox.read_bytes)
    read_text = wakeful(plain.Sandbox.read_text)
    write_bytes = wakeful(plain.Sandbox.write_bytes)
    write_text = wakeful(plain.Sandbox.write_text)
    upload = wakeful(plain.Sandbox.upload)
    download = wakeful(plain.Sandbox.download)
    diff = wakeful(plain.Sandbox.diff)
    snapshot = wakeful(plain.Sandbox.snapshot)
    fork = wakeful(plain.Sandbox.fork)
    processes = wakeful(plain.Sandbox.processes)
    pause = wakeful(plain.Sandbox.pause)
    resume = wakeful(plain.Sandbox.resume)
    listen = wakeful(plain.Sandbox.listen)
    status = wakeful(plain.Sandbox.status)
    close = wakeful(plain.Sandbox.close)
