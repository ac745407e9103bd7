"""All that a command prints, for a file in its sandbox."""

from __future__ import annotations

import tempfile
from pathlib import Path
from types import TracebackType

from swe_sdk.errors import SandboxError
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.sandbox.contract import Box, OnOutput, Stream

WHOLE_OUTPUT_BYTES = 1 << 30
"""What is printed beyond that is not kept."""


class WholeOutput:
    """Collects both streams, in the order in which they came, in a file of this machine."""

    def __init__(self, on_output: OnOutput | None) -> None:
        self._on_output = on_output
        self._file = tempfile.NamedTemporaryFile(prefix="swe_sdk-output-")  # noqa: SIM115 - closed by __exit__
        self._room = WHOLE_OUTPUT_BYTES
        self._is_whole = True

    def take(self, stream: Stream, data: bytes) -> None:
        """One more piece."""
        try:
            self._file.write(data[: self._room])
        except OSError:  # our own disk is full, which must not end the command
            self._is_whole = False
        self._room = max(0, self._room - len(data))
        if self._on_output is not None:
            self._on_output(stream, data)

    async def put(self, box: Box, path: str, result: ExecResult) -> ExecResult:
        """Write the file, and say in the result that it is there. It is not where a disk is full or the box is gone."""
        try:
            self._file.flush()
            if not self._is_whole:
                return result
            await box.upload(Path(self._file.name), path)
        except (OSError, SandboxError):
            return result
        return result.model_copy(update={"output_file": path})

    def __enter__(self) -> WholeOutput:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._file.close()
        except OSError:
            pass  # what it held back has no room
