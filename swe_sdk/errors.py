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
    │   ├── UnknownRun              no run has that name
    │   ├── UnknownRollout          no rollout has that id
    │   ├── UnknownLog (KeyError)   a rollout has no file of that name
    │   ├── UnknownAgent            no agent has that name
    │   └── PredictionsError        a predictions file is malformed
    ├── PrerequisiteError           this machine lacks something; install it or choose otherwise
    │   ├── MissingTool             a program (python, node, git, ...) was not found
    │   ├── ProviderUnavailable     a sandbox provider cannot work here
    │   ├── HarnessUnavailable      an agent's harness is not installed, and could not be
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
    ├── ModelError                  the model's endpoint failed an agent; never the agent's doing
    │   ├── ModelUnreachable        there is no connection to it, or it did not answer in time
    │   │   └── ModelEgressUnavailable  a sandbox cannot reach it
    │   └── ModelFailed             it answered with an error of its own
    ├── PatchUnavailable            whoever worked in a sandbox left it so that no patch can be taken from it
    ├── VerifierError               a verifier elsewhere answered, and not with a verdict
    │   └── VerifierUnreachable     it could not be reached, or did not answer in time
    ├── CheckpointError             a checkpoint operation was refused or failed; ``code`` tells which way
    │   └── CoordinationError       it failed at some participants; names each of them
    ├── BlockedLoop (RuntimeError)  a blocking call on the SDK's own loop, which would wait for itself
    ├── IndexDamaged                the index of a run directory was damaged; it is made anew
    ├── RunClosed                   a run, or an index of runs, was closed by us, and used again
    ├── OutputFailed                what a command prints cannot be written
    └── CommandFailed               ExecResult.check() on a command that did not succeed

What the graded program does is data (an ``ExecResult`` or an ``Outcome``), never an exception. ``SandboxError``,
``BuildFailed``, ``GradingError`` and ``PrerequisiteError`` become a ``Mask`` at the boundary of a grade
(:mod:`swe_sdk.grading.classify`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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


class UnknownLog(_UnknownName, KeyError):
    """A rollout has no file of that name."""

    kind = "file"


class UnknownAgent(_UnknownName):
    """No agent has that name."""

    kind = "agent"


class UnknownRun(_UnknownName):
    """No run has that name, or there are several and none was named."""

    kind = "run"


class UnknownRollout(_UnknownName):
    """No rollout has that id."""

    kind = "rollout"


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


class HarnessUnavailable(PrerequisiteError):
    """An agent's harness is not installed, and could not be: ``harness`` names it."""

    def __init__(self, harness: str, problem: str, *, remedy: str = "") -> None:
        super().__init__(f"{harness}: {problem}", remedy=remedy)
        self.harness = harness
        self.problem = problem

    def __reduce__(self) -> tuple[object, ...]:
        return (_harness_unavailable, (self.harness, self.problem, self.remedy))


def _harness_unavailable(harness: str, problem: str, remedy: str) -> HarnessUnavailable:
    return HarnessUnavailable(harness, problem, remedy=remedy)


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


class ModelError(SweError):
    """The model's endpoint failed an agent: a fact of the gateway, never of what the agent says."""


class ModelUnreachable(ModelError):
    """There is no connection to the model's endpoint, or it did not answer in time."""


class ModelEgressUnavailable(ModelUnreachable):
    """The model's endpoint cannot be reached from within a sandbox."""


class ModelFailed(ModelError):
    """The model's endpoint answered with an error that is not the caller's: of its server, its limits, its key."""


class PatchUnavailable(SweError):
    """Whoever worked in a sandbox left it so that no patch can be taken from it; a fresh one gives one."""


class VerifierError(SweError):
    """A verifier elsewhere answered, and not with a verdict: it refuses the request, or failed."""


class VerifierUnreachable(VerifierError):
    """A verifier elsewhere could not be reached, or did not answer in time; the patch may still be graded later."""


class CheckpointError(SweError):
    """A checkpoint operation was refused or failed; ``code`` is one of :data:`swe_sdk.checkpoint.codes.CODES`."""

    def __init__(self, code: str, detail: str, *, remedy: str = "") -> None:
        super().__init__(f"{code}: {detail}", remedy=remedy)
        self.code = code
        self.detail = detail

    def __reduce__(self) -> tuple[object, ...]:
        return (_checkpoint_error, (self.code, self.detail, self.remedy))


def _checkpoint_error(code: str, detail: str, remedy: str) -> CheckpointError:
    return CheckpointError(code, detail, remedy=remedy)


class CoordinationError(CheckpointError):
    """A checkpoint operation failed at some participants: ``failures`` has what each of them said, by its name."""

    def __init__(self, operation: str, failures: Mapping[str, str]) -> None:
        self.operation = operation
        self.failures = dict(failures)
        told = "; ".join(f"{name}: {detail}" for name, detail in self.failures.items())
        super().__init__(
            "checkpoint_error", f"{operation} failed at {told}", remedy="each of them says what is the matter with it"
        )

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.operation, self.failures))


class BlockedLoop(SweError, RuntimeError):
    """A blocking call was made on the loop that would have to carry it out, as within a callback of another call."""


class IndexDamaged(SweError):
    """The index of a run directory was damaged, and was replaced by an empty one; the next refresh fills it."""


class RunClosed(SweError):
    """A run, or an index of runs, was closed by its owner and used again."""


class OutputFailed(SweError):
    """What a command prints could not be written; ``is_unread`` where whoever read it has gone (a closed pipe)."""

    def __init__(self, cause: OSError) -> None:
        self.reason = cause.strerror or str(cause)
        super().__init__(f"standard output: {self.reason}", remedy="send it where there is room for it")
        self.errno = cause.errno
        self.is_unread = isinstance(cause, BrokenPipeError)

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (OSError(self.errno, self.reason),))


class CommandFailed(SweError):
    """A command did not succeed, and the caller asked to hear of it."""
