"""A patch is bytes: it is never decoded, stripped or re-joined on its way."""

from __future__ import annotations

import hashlib
from functools import cached_property

from swe_sdk.errors import InputError
from swe_sdk.model.diff import PatchedFile, patched_files
from swe_sdk.model.record import Record
from swe_sdk.shown import Shown


class Patch(Shown, Record):
    """A unified diff as raw bytes.

    ``repairs`` names what :meth:`of` changed to make it usable (at most: a final newline added).
    """

    data: bytes
    repairs: tuple[str, ...] = ()

    @classmethod
    def of(cls, value: Patch | bytes | str | None) -> Patch:
        """A patch from bytes, text or nothing.

        Text is encoded as UTF-8 with surrogate escapes, so that text read that way from a file of any encoding gives
        back its bytes. A missing final newline is added and reported: ``git apply`` refuses a patch without one.
        ``InputError`` for anything else.
        """
        if isinstance(value, Patch):
            return value
        data = _as_bytes(value)
        if data and not data.endswith(b"\n"):
            return cls(data=data + b"\n", repairs=("final_newline_added",))
        return cls(data=data)

    @cached_property
    def sha256(self) -> str:
        """Hex digest of the bytes."""
        return hashlib.sha256(self.data).hexdigest()

    @property
    def exists(self) -> bool:
        """Whether there is anything but white space in it."""
        return bool(self.data.strip())

    @cached_property
    def files(self) -> tuple[PatchedFile, ...]:
        """The files it touches, in order; empty where it is malformed."""
        return patched_files(self.data)

    @property
    def text(self) -> str:
        """For show only: undecodable bytes are replaced."""
        return self.data.decode("utf-8", "replace")

    def __len__(self) -> int:
        return len(self.data)

    def __bool__(self) -> bool:
        return self.exists

    def __repr__(self) -> str:
        return f"Patch({len(self.data)} bytes, {len(self.files)} files, sha256={self.sha256[:12]})"


def _as_bytes(value: object) -> bytes:
    if value is None:
        return b""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if not isinstance(value, bytes):
        remedy = "give text, bytes or a Patch; of a file, path.read_bytes()"
        raise InputError(f"{value!r:.200} is no patch", remedy=remedy)
    return value


EMPTY_PATCH = Patch(data=b"")
