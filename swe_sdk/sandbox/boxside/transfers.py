"""Files on their way into a box or out of it, a piece at a time."""

from __future__ import annotations

import os

from . import disk, files, frames
from .calls import Connection
from .operations import Operation


class Transfers:
    """Those of a supervisor that are under way."""

    def __init__(self, disk_watch: disk.Watch | None) -> None:
        self._disk_watch = disk_watch
        self._root = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._under_way: dict[Connection, files.Transfer] = {}

    @property
    def operations(self) -> dict[str, Operation]:
        """What they are begun with."""
        return {"read": self._read, "write": self._write, "mkdir": self._make_directory}

    def __bool__(self) -> bool:
        return bool(self._under_way)

    def step(self) -> None:
        """Copy one more piece of each, so that a large file does not keep everybody else waiting."""
        for connection in list(self._under_way):
            self._step(connection)

    def give_up(self, connection: Connection) -> None:
        """Its caller is gone."""
        transfer = self._under_way.pop(connection, None)
        if transfer is not None:
            transfer.close()

    def _read(self, connection: Connection, message: frames.Message) -> None:
        """Copy a regular file of the box into the file that came with the request.

        If that has no ``room`` for it, the answer is how large it is; or, to ``cut`` it, as much is copied as fits.
        """
        (theirs,) = connection.decoder.take_fds()
        ours = self._open(message, theirs, write=False)
        size = os.fstat(ours).st_size
        transfer = files.Transfer(ours, theirs, min(size, message["room"]))
        if size > message["room"] and not message["cut"]:
            transfer.close()
            connection.reply({"ev": "larger", "size": size})
        else:
            self._under_way[connection] = transfer

    def _write(self, connection: Connection, message: frames.Message) -> None:
        """Copy the file that came with the request over a file of the box."""
        (theirs,) = connection.decoder.take_fds()
        ours = self._open(message, theirs, write=True)
        self._under_way[connection] = files.Transfer(theirs, ours, os.fstat(theirs).st_size)

    def _open(self, message: frames.Message, theirs: int, *, write: bool) -> int:
        mode, owner = int(message.get("mode", 0o644)), message.get("owner")
        try:
            return files.open_regular(self._root, message["path"], write=write, mode=mode, owner=owner)
        except BaseException:
            os.close(theirs)
            raise

    def _make_directory(self, connection: Connection, message: frames.Message) -> None:
        files.make_directories(self._root, message["path"], message["owner"])
        connection.reply({"ev": "ok"})

    def _step(self, connection: Connection) -> None:
        transfer = self._under_way[connection]
        try:
            if transfer.step():
                return
            if self._disk_watch is not None:
                self._disk_watch.allow(transfer.copied)
            connection.reply({"ev": "ok", "copied": transfer.copied})
        except OSError as error:
            transfer.undo()
            connection.reply({"ev": "error", "error": str(error), "errno": error.errno})
        del self._under_way[connection]
        transfer.close()
