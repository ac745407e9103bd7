"""A world without programs: boxes in memory whose patch is one of their files, a verifier that looks for an answer."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
from pydantic import SecretStr

from swe_sdk.agents.contract import AgentEnd, AgentNeeds, Episode, ModelAccess
from swe_sdk.agents.gateway.settings import ModelUsage
from swe_sdk.agents.scripted import Exec, ScriptedAgent, Write
from swe_sdk.errors import NoSpace, SweError
from swe_sdk.model.environment import ImageEnvironment
from swe_sdk.model.outcome import Outcome, PatchReport
from swe_sdk.model.patch import Patch
from swe_sdk.model.task import GradingSpec, Task
from swe_sdk.rollouts.settings import RolloutSettings
from swe_sdk.store.events import Event
from swe_sdk.testing.fake import Command, FakeProvider, File, MemoryBox, Reply
from swe_sdk.testing.faults import Fault

FULL = NoSpace("the disk is full")
BASE = "b" * 40
ANSWER = "/testbed/answer"
TAKES_PATCH = r"OWN=/tmp/diff-"
"""What the command is known by that takes a patch."""
WORKS = "work on it"
"""The command of the agent below."""
QUICK = RolloutSettings(
    build_timeout_s=2,
    seed_timeout_s=0.3,
    agent_timeout_s=0.3,
    command_timeout_s=5,
    close_timeout_s=0.6,
    verify_timeout_s=0.3,
    teardown_timeout_s=0.2,
    retries=0,
)
"""Every cap is short, so that what hangs is seen soon."""
LONGEST_S = 2 + 0.3 + 0.3 + 0.6 + 0.3 + 4 * 0.2 + 1.0
"""No rollout under QUICK may take longer, whatever happens; a second is the machine's."""


def make_task(instance_id: str = "fake__task-1", **changes: Any) -> Task:
    """A task on an image, solved by an answer of 42."""
    fields: dict[str, Any] = {
        "instance_id": instance_id,
        "family": "swe-bench",
        "repo": "fake/task",
        "problem_statement": "Give the answer.",
        "base_commit": BASE,
        "environment": ImageEnvironment(image="an:image"),
        "grading": GradingSpec(fail_to_pass=("t",), test_command="true", parser="pytest", gold_patch=Patch.of("42\n")),
    }
    return Task(**{**fields, **changes})


def answer(text: str = "42") -> ScriptedAgent:
    """An agent that works, and then writes an answer."""
    return ScriptedAgent(actions=(Exec(command=WORKS), Write(path=ANSWER, content=text), Exec(command=WORKS)))


def play(command: Command, box: MemoryBox) -> Reply:
    """The programs of the boxes: git says what is in the answer file."""
    if command.argv and command.argv[:2] == ("env", "-i"):
        variables = dict(word.split("=", 1) for word in command.argv[2:] if "=" in word and "\n" not in word)
        if "rev-parse" in command.argv:
            return BASE.encode()
        own, script = variables["OWN"], command.argv[-1]
        found = box.files.get(ANSWER, File(b"")).data
        listed = b"" if "sed -z 's|^|?" in script else b"a pack" if "pack-objects" in script else found
        box.files[f"{own}/result"] = File(listed)
    return b""


def make_provider(*faults: Fault, **options: Any) -> FakeProvider:
    """Boxes in memory, with faults."""
    return FakeProvider(handler=play, faults=faults, **options)


class FakeVerifier:
    """Resolved where the patch holds 42. ``trouble`` is raised the first ``times`` times, or awaited."""

    def __init__(
        self, trouble: BaseException | Callable[[], Awaitable[object]] | None = None, *, times: int = 10**9
    ) -> None:
        self.patches: list[Patch] = []
        self._trouble = trouble
        self._left = times

    async def verify(self, task: Task, patch: Patch, *, deadline_s: float) -> Outcome:
        self.patches.append(patch)
        if self._trouble is not None and self._left > 0:
            self._left -= 1
            if isinstance(self._trouble, BaseException):
                raise self._trouble
            await self._trouble()
        return verified(task, patch)


def verified(task: Task, patch: Patch, **changes: Any) -> Outcome:
    solved = b"42" in patch.data
    fields: dict[str, Any] = {
        "instance_id": task.instance_id,
        "family": task.family,
        "status": "resolved" if solved else "unresolved",
        "reward": float(solved),
        "patch": PatchReport(exists=patch.exists, applied=patch.exists, sha256=patch.sha256),
        "provider": "fake",
    }
    return Outcome(**{**fields, **changes})


class MemoryArtifact:
    """A file that grows in memory."""

    def __init__(self, journal: MemoryJournal, path: Path) -> None:
        self.path = path
        self.data = b""
        self.is_open = True
        self._journal = journal

    def write(self, data: bytes) -> None:
        self._journal.use()
        self.data += data

    async def aclose(self) -> None:
        self.is_open = False


class MemoryJournal:
    """Keeps events in a list; after ``room`` of them it meets ``trouble``: the disk is full, it fails, or it hangs."""

    def __init__(self, room: int | None = None, trouble: Exception | Literal["hang"] = FULL) -> None:
        self.events: list[Event] = []
        self.artifacts: dict[tuple[str | None, int | None, str], MemoryArtifact] = {}
        self.room = room
        self._trouble = trouble
        self._lock = threading.Lock()

    def use(self) -> None:
        if self.room is not None and len(self.events) >= self.room:
            raise FULL if self._trouble == "hang" else self._trouble

    def append(self, event: Event, /) -> None:
        with self._lock:
            self.use()
            self.events.append(event)

    async def append_async(self, event: Event, /) -> None:
        await anyio.lowlevel.checkpoint()
        if self._trouble == "hang" and self.room is not None and len(self.events) >= self.room:
            await anyio.sleep_forever()
        self.append(event)

    def artifact(self, name: str, *, rollout_id: str | None, attempt: int | None, role: str) -> MemoryArtifact:
        self.use()
        key = (rollout_id, attempt, name)
        assert key not in self.artifacts
        self.artifacts[key] = MemoryArtifact(self, Path("/nowhere") / name)
        return self.artifacts[key]

    def save(self, name: str, data: bytes, *, rollout_id: str | None, attempt: int | None, role: str) -> None:
        self.artifact(name, rollout_id=rollout_id, attempt=attempt, role=role).data = data

    def of(self, kind: str) -> list[Any]:
        return [event for event in self.events if event.kind == kind]

    @property
    def kinds(self) -> Counter[str]:
        return Counter(event.kind for event in self.events)

    def check(self, *, cancelled: bool = False) -> None:
        """What must hold of every journal, whatever happened."""
        for (rollout_id, attempt), events in by_attempt(self.events).items():
            kinds = [event.kind for event in events]
            assert kinds.count("attempt_started") == 1, (rollout_id, attempt, kinds)
            assert kinds.count("attempt_ended") == 1, (rollout_id, attempt, kinds)
            assert kinds.count("outcome") == (0 if cancelled else 1)
            assert kinds[0] == "attempt_started"
            started = [event.stage for event in events if event.kind == "stage_started"]
            ended = [event.stage for event in events if event.kind == "stage_ended"]
            assert started == ended, (rollout_id, attempt, kinds)
            spent = [event.budget.spent_s for event in events if event.kind == "budget"]
            assert spent == sorted(spent)
        assert not any(artifact.is_open and artifact.path.name != "patch.diff" for artifact in self.artifacts.values())


def by_attempt(events: list[Event]) -> dict[tuple[str, int], list[Any]]:
    found: dict[tuple[str, int], list[Any]] = {}
    for event in events:
        number = getattr(event, "attempt", None)
        if number is not None and event.kind != "rollout_ended":
            found.setdefault((event.rollout_id, number), []).append(event)  # type: ignore[attr-defined]
    return found


class FakeModel:
    """A way to a model that exists on paper: ``refuses`` at the start, or has met ``trouble`` by the end."""

    def __init__(
        self,
        *,
        refuses: SweError | None = None,
        trouble: SweError | None = None,
        opening: Callable[[], Awaitable[object]] = anyio.lowlevel.checkpoint,
    ) -> None:
        self.open = 0
        self.opened = 0
        self.trouble = trouble
        self.usage = ModelUsage()
        self.refused = 0
        self.access = ModelAccess(name="m", base_url="http://127.0.0.1:1/v1", api_key=SecretStr("the key"))
        self._refuses = refuses
        self._opening = opening

    @asynccontextmanager
    async def connect(
        self, provider: object, box: object, *, rollout_id: str, attempt: int, used: ModelUsage | None = None
    ) -> AsyncIterator[FakeModel]:
        async with anyio.create_task_group():  # as the real one: its scopes must be left in order
            await self._opening()
            if self._refuses is not None:
                raise self._refuses
            self.open += 1
            self.opened += 1
            try:
                yield self
            finally:
                self.open -= 1


class FunctionAgent:
    """An agent whose loop is a function."""

    name, version, tier = "function", "1", "restart"

    def __init__(self, run: Callable[[Episode], Awaitable[AgentEnd]], needs: AgentNeeds | None = None) -> None:
        self.run = run
        self.needs = needs or AgentNeeds()


class Clock:
    """A monotonic clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def leaks(provider: FakeProvider) -> list[str]:
    """Boxes that somebody was told of and nobody closed."""
    unheard = {call.box_id for call in provider.log if call.op == "create" and call.outcome != "done"}
    return [box.id for box in provider.live if box.id not in unheard]
