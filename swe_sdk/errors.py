"""Every error that swe_sdk raises on purpose.

::

    SweError                        message + remedy (what to do about it)
    ├── InputError (ValueError)     the caller's data is at fault; the same call fails again
    │   ├── DatasetError            a task file is missing or unreadable
    │   ├── RowError                one row of a dataset is malformed; names the row and the field
    │   ├── DuplicateTask           two rows share an instance id
    │   ├── UnknownTask             no task has that id
    │   ├── UnknownFamily           no recipe has that name
    │   ├── UnknownParser           no log parser has that name
    │   ├── UnknownProvider         no sandbox provider has that name
    │   └── PredictionsError        a predictions file is malformed
    ├── PrerequisiteError           this machine lacks something; install it or choose otherwise
    │   ├── MissingTool             a program (python, node, git, ...) was not found
    │   ├── ProviderUnavailable     a sandbox provider cannot work here
    │   └── CapabilityMissing       the provider works, but cannot do this
    ├── SandboxError                the infrastructure under a sandbox failed; never the program's doing
    │   ├── CreateFailed            the sandbox could not be made
    │   │   ├── ImageNotFound       no registry and no engine at hand has an image of that name
    │   │   └── PullFailed          the image may exist, but could not be fetched
    │   ├── SandboxLost             it died under us
    │   │   └── SandboxOutOfMemory  of its programs, which had filled its memory
    │   ├── SandboxClosed           it was closed by us, and used again
    │   ├── TransferFailed          a file could not be read from or written to it
    │   ├── SnapshotBusy            processes are alive in it, so it cannot be sealed
    │   ├── SnapshotNotFound        no such snapshot
    │   └── NoSpace                 the disk is full
    ├── BuildFailed                 an environment's build step failed; carries the step and its output
    ├── GradingError                the measurement could not be made; becomes a Mask
    │   ├── ResetFailed             the repository could not be brought to its base state
    │   ├── TestPatchFailed         the grader's own test patch does not apply
    │   └── EvaluatorFailed         an upstream's own evaluator in the box gave no verdict
    └── CommandFailed               ExecResult.check() on a command that did not succeed

What the graded program does is data (an ``ExecResult`` or an ``Outcome``), never an exception. ``SandboxError``,
``BuildFailed``, ``GradingError`` and ``PrerequisiteError`` become a ``Mask`` at the boundary of a grade
(:mod:`swe_sdk.grading.classify`).
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class SweError(Exception):
    """Base of all errors of this package; ``remedy`` says what the reader can do."""

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message} ({self.remedy})" if self.remedy else self.message


class InputError(SweError, ValueError):
    """The caller's data is at fault; the same call fails again."""


class DatasetError(InputError):
    """A task file is missing, unreadable or of an unknown format."""


class RowError(InputError):
    """One row of a dataset is malformed.

    ``row`` is its place (file and line number, or index), ``instance_id`` its id where one could be read.
    """

    def __init__(self, row: str, problem: str, *, instance_id: str | None = None, remedy: str = "") -> None:
        name = f"{row} ({instance_id})" if instance_id else row
        super().__init__(f"{name}: {problem}", remedy=remedy)
        self.row = row
        self.problem = problem
        self.instance_id = instance_id

    def __reduce__(self) -> tuple[object, ...]:
        return (_row_error, (self.row, self.problem, self.instance_id, self.remedy))


def _row_error(row: str, problem: str, instance_id: str | None, remedy: str) -> RowError:
    return RowError(row, problem, instance_id=instance_id, remedy=remedy)


class DuplicateTask(InputError):
    """Two rows of one dataset share an instance id."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A remedy that lists the close matches of ``name``, else all known names."""
    names = sorted(known)
    close = get_close_matches(name, names, n=3, cutoff=0.5)
    if close:
        return f"did you mean {' or '.join(close)}?"
    shown = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
    return f"known: {shown}" if names else "none is known"


class _UnknownName(InputError):
    kind = "name"

    def __init__(self, name: str, known: Iterable[str] = ()) -> None:
        self.name = name
        self.known = tuple(sorted(known))
        super().__init__(f"unknown {self.kind} {name!r}", remedy=did_you_mean(name, self.known))

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.name, self.known))


class UnknownTask(_UnknownName):
    """No task has that id."""

    kind = "task"


class UnknownFamily(_UnknownName):
    """No recipe (harness family) has that name."""

    kind = "family"


class UnknownParser(_UnknownName):
    """No log parser has that name."""

    kind = "log parser"


class UnknownProvider(_UnknownName):
    """No sandbox provider has that name."""

    kind = "sandbox provider"


class PredictionsError(InputError):
    """A predictions file is malformed; the message names the line."""


class PrerequisiteError(SweError):
    """This machine lacks something."""


class MissingTool(PrerequisiteError):
    """A program that the task needs was not found: ``where`` says where it was looked for."""

    def __init__(self, tool: str, *, remedy: str = "", where: str = "on this machine") -> None:
        super().__init__(f"{tool} was not found {where}", remedy=remedy or f"install {tool}")
        self.tool = tool
        self.where = where

    def __reduce__(self) -> tuple[object, ...]:
        return (_missing_tool, (self.tool, self.remedy, self.where))


def _missing_tool(tool: str, remedy: str, where: str) -> MissingTool:
    return MissingTool(tool, remedy=remedy, where=where)


class ProviderUnavailable(PrerequisiteError):
    """A sandbox provider cannot work here."""


class CapabilityMissing(PrerequisiteError):
    """The provider works, but cannot do this."""


class SandboxError(SweError):
    """The infrastructure under a sandbox failed; never caused by what the sandboxed program printed or returned."""


class CreateFailed(SandboxError):
    """The sandbox could not be made."""


class ImageNotFound(CreateFailed):
    """No registry and no engine at hand has an image of that name, or none that this user may see."""


class PullFailed(CreateFailed):
    """The image may exist, but could not be fetched."""


class SandboxLost(SandboxError):
    """The sandbox died under us."""


class SandboxOutOfMemory(SandboxLost):
    """The sandbox died because its own programs had filled its memory: their doing, and not the infrastructure's."""


class SandboxClosed(SandboxError):
    """The sandbox was closed by its owner and used again."""


class TransferFailed(SandboxError):
    """A file could not be read from or written to the sandbox."""


class SnapshotBusy(SandboxError):
    """Processes are alive in the sandbox, so its layer cannot be sealed."""


class SnapshotNotFound(SandboxError):
    """No snapshot has that id."""


class NoSpace(SandboxError):
    """The disk that holds the sandboxes is full."""


class BuildFailed(SweError):
    """A build step of an environment failed; ``step`` names it and ``output`` is the end of what it printed."""

    def __init__(self, step: str, output: str, *, remedy: str = "") -> None:
        super().__init__(f"environment build step {step!r} failed: {output[-2000:].strip()}", remedy=remedy)
        self.step = step
        self.output = output

    def __reduce__(self) -> tuple[object, ...]:
        return (_build_failed, (self.step, self.output, self.remedy))


def _build_failed(step: str, output: str, remedy: str) -> BuildFailed:
    return BuildFailed(step, output, remedy=remedy)


class GradingError(SweError):
    """The measurement could not be made."""


class ResetFailed(GradingError):
    """The repository could not be brought to its base state."""


class TestPatchFailed(GradingError):
    """The grader's own test patch does not apply, so nothing can be measured."""

    __test__ = False  # the name starts with "Test": keep pytest from collecting it


class EvaluatorFailed(GradingError):
    """An upstream's own evaluator, run in the box, gave no verdict that can be read."""


class CommandFailed(SweError):
    """A command did not succeed, and the caller asked to hear of it."""
