"""How a check says what must hold.

Plain functions instead of ``assert``: they also hold under ``python -O``, and their messages are complete without the
introspection of pytest, because the suites run outside of it too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from swe_sdk.errors import SweError
from swe_sdk.model.exec_result import ExecResult

T = TypeVar("T")
_SHOWN = 400


class CheckFailed(AssertionError):
    """What a check says must hold does not hold."""


class NotApplicable(Exception):
    """A check that cannot be made here; the message says what is missing."""


def require(condition: object, otherwise: str) -> None:
    """Fail with the message ``otherwise`` unless ``condition`` is true."""
    if not condition:
        raise CheckFailed(otherwise)


def require_equal(actual: T, wanted: T, what: str) -> None:
    """Fail unless both are equal; long values are shown from both ends."""
    require(actual == wanted, f"{what}: wanted {_short(wanted)}, got {_short(actual)}")


def require_ok(result: ExecResult, what: str = "the command") -> ExecResult:
    """Fail unless the command exited with code 0; the result itself."""
    require(result.ok, f"{what} {told(result)}")
    return result


def require_exit(result: ExecResult, *codes: int) -> None:
    """Fail unless it *exited*, with one of ``codes``."""
    require(
        result.status == "exited" and result.exit_code in codes,
        f"wanted status 'exited' with {' or '.join(map(str, codes))}, but it {told(result)}",
    )


@contextmanager
def refusal(what: str, *wanted: type[SweError], never: tuple[type[SweError], ...] = ()) -> Iterator[None]:
    """Fail unless the block raises one of ``wanted`` (and none of ``never``)."""
    names = " or ".join(error.__name__ for error in wanted)
    try:
        yield
    except never as error:
        raise CheckFailed(f"{what}: must not be {type(error).__name__}: {error}") from error
    except wanted:
        return
    except SweError as error:
        raise CheckFailed(f"{what}: wanted {names}, got {type(error).__name__}: {error}") from error
    raise CheckFailed(f"{what}: wanted {names}, but nothing was raised")


def told(result: ExecResult) -> str:
    """How a command ended, with the end of what it printed."""
    end = (result.stderr or result.stdout).strip()[-_SHOWN:]
    return f"{result.summary}: {end}" if end else result.summary


def describe(error: BaseException) -> str:
    """Type and message; the leaves, where it is a group."""
    if isinstance(error, BaseExceptionGroup):
        return "\n".join(dict.fromkeys(describe(part) for part in error.exceptions))
    if isinstance(error, CheckFailed | NotApplicable):
        return str(error)
    return f"{type(error).__name__}: {error}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN // 2]} ... {text[-_SHOWN // 2 :]}"
