"""One check of the provider suite, and the decorator that registers it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from swe_sdk.sandbox.contract import Capability
from swe_sdk.testing.lab import Lab

Run = Callable[[Lab], Awaitable[None]]
DEFAULT_LIMIT_S = 60.0


@dataclass(frozen=True)
class Check:
    """What must hold of every provider that has the capabilities in ``needs``.

    ``tools`` are programs that the check runs in the box: one of each group, such as ``"python3|bash"``. Where a
    capability or a tool is missing the check is *not applicable*: it never passes for nothing.
    """

    topic: str
    name: str
    about: str
    """What must hold, and why."""
    run: Run
    needs: frozenset[Capability]
    tools: tuple[str, ...]
    limit_s: float

    @property
    def id(self) -> str:
        """``topic/name``."""
        return f"{self.topic}/{self.name}"


_REGISTERED: dict[str, Check] = {}


def check(
    *, needs: Iterable[Capability] = (), tools: Iterable[str] = (), limit_s: float = DEFAULT_LIMIT_S
) -> Callable[[Run], Run]:
    """Register an async function as a check; its topic is the module, its name and docstring are the function's."""

    def register(run: Run) -> Run:
        topic = run.__module__.rpartition(".")[2]
        if not run.__doc__:
            raise TypeError(f"check {run.__name__} must say what has to hold, and why, in its docstring")
        made = Check(topic, run.__name__, run.__doc__, run, frozenset(needs), tuple(tools), limit_s)
        if made.id in _REGISTERED:
            raise TypeError(f"two checks are named {made.id}")
        _REGISTERED[made.id] = made
        return run

    return register


def registered_checks() -> tuple[Check, ...]:
    """All checks registered so far, in the order of their registration."""
    return tuple(_REGISTERED.values())
