"""A program that uses a layer store and is killed at every line of it, one after the other.

Run by ``test_snapshots_crashes``. It is a process of its own, because it forks, and the tests have threads.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from swe_sdk import files
from swe_sdk.sandbox.providers.local import layers
from swe_sdk.sandbox.providers.local.identity import current_identity
from swe_sdk.sandbox.providers.local.layers import UPPER, LayerStore

_WATCHED = (layers.__file__, files.__file__)


def life(root: Path) -> None:
    """Everything that a process does with a store: boxes, snapshots, a merged chain, deletions."""
    store = open_store(root)
    box = store.new_box("box", ())
    chain = fill_and_seal(store, box, ())
    first = store.publish("snap-first", chain)
    store.renew(box, chain)
    chain = fill_and_seal(store, box, chain)
    store.publish("snap-second", chain)
    workshop = store.new_box("workshop", chain)
    shorter = fill_and_seal(store, workshop, chain[2:])
    store.need(box, (*shorter, *chain))
    store.discard(workshop, chain, None)
    store.renew(box, shorter)
    store.publish("snap-third", fill_and_seal(store, box, shorter))
    fork = store.new_box("fork", first.chain)
    store.delete_snapshot("snap-first")
    store.delete_snapshot("snap-second")
    store.discard(fork, first.chain, "snap-first")
    store.discard(box, shorter, "snap-third")
    store.close()


def open_store(root: Path) -> LayerStore:
    store = LayerStore(root, current_identity())
    store.sweep()
    return store


def fill_and_seal(store: LayerStore, box: Path, chain: tuple[str, ...]) -> tuple[str, ...]:
    (box / UPPER / "content").write_text("complete")
    return store.seal(box, chain)


def killed_at(line: int) -> Callable[..., Any]:
    """A trace function that kills this process before it executes that line of the store, counted from 1."""
    left = line

    def trace(frame: FrameType, event: str, _argument: object) -> Callable[..., Any] | None:
        nonlocal left
        if frame.f_code.co_filename not in _WATCHED:
            return None
        if event == "line":
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    return trace


def faults_of(root: Path) -> list[str]:
    """What is wrong on disk, before anybody has tidied up: a snapshot must be complete at any moment."""
    return [
        f"{record.name} names {layer}, which is missing or not complete"
        for record in (root / "snapshots").glob("*.json")
        for layer in json.loads(record.read_text())["chain"]
        if not (root / "layers" / layer / "diff" / "content").exists()
    ]


def remains_of(root: Path) -> list[str]:
    """What is left after the next process has swept, beyond the snapshots and their layers."""
    named = {
        layer for record in (root / "snapshots").glob("*.json") for layer in json.loads(record.read_text())["chain"]
    }
    remains = [f"layer {path.name}" for path in (root / "layers").iterdir() if path.name not in named]
    remains += [str(path) for path in (root / "snapshots").iterdir() if path.suffix != ".json"]
    for kind in ("boxes", "owners", "trash"):
        remains += [f"{kind}/{path.name}" for path in (root / kind).iterdir()]
    return remains


def run(function: Callable[[Path], object], state: Path, line: int) -> int:
    """The exit status of a process that does this, and is killed at that line."""
    pid = os.fork()
    if pid == 0:
        sys.settrace(killed_at(line))
        function(state)
        os._exit(0)
    return os.waitpid(pid, 0)[1]


def main(root: Path, every: int) -> None:
    line, problems = 1, []
    while True:
        state = root / str(line)
        status = run(life, state, line)
        if state.exists():
            faults = faults_of(state)
            run(open_store, state, line * 7 % 150)  # who tidies up may be killed as well
            faults += faults_of(state)
            open_store(state).close()
            problems += [[line, fault] for fault in (*faults, *remains_of(state))]
        if status == 0:
            break
        if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
            problems.append([line, f"ended with status {status}"])
            break
        line += every
    json.dump({"lines": line, "problems": problems}, sys.stdout)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
