"""Running an adapter in a lent box, without the engine: an episode that keeps everything in lists and files."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import anyio
from anyio import to_thread
from anyio.abc import SocketAttribute, SocketStream
from pydantic import SecretStr

from swe_sdk.agents.contract import Agent, AgentEnd, AgentTask, LentBox, ModelAccess, Step
from swe_sdk.agents.harnesses import ensure_harness
from swe_sdk.errors import PrerequisiteError
from swe_sdk.model.outcome import Outcome
from swe_sdk.model.patch import Patch
from swe_sdk.model.task import Task
from swe_sdk.sandbox import environments
from swe_sdk.sandbox.base import pin_base
from swe_sdk.sandbox.contract import Box, SandboxProvider
from swe_sdk.sandbox.providers.docker.provider import DockerProvider
from swe_sdk.sandbox.tree import take_patch
from swe_sdk.testing import ScriptedModel
from swe_sdk.testing.scripted_model import Fault, Turn
from tests.agents.tasks import mini_task
from tests.shared import lacking

KEY = "key-of-the-episode"
PORT = 8700


def need_harness_installed(name: str) -> Path:
    """The harness, installed if need be. What this machine lacks for it skips the test by name; on CI it fails."""
    try:
        return ensure_harness(name)
    except PrerequisiteError as error:
        lacking(f"the harness {name} cannot be installed here: {error}")


class LabTranscript:
    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, data: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(data)


@dataclass
class LabEpisode:
    """See :class:`swe_sdk.agents.contract.Episode`."""

    task: AgentTask
    box: LentBox
    folder: Path
    model: ModelAccess | None = None
    rollout_id: str = "lab.0"
    attempt: int = 1
    remaining_s: float | None = None
    command_timeout_s: float = 60.0
    saved: dict[str, Any] | None = None
    steps: list[Step] = field(default_factory=list)
    boundaries: list[dict[str, Any] | None] = field(default_factory=list)
    stop_after: int | None = None
    """Of boundaries: then it stands still for ever, as if parked."""
    park: anyio.Event = field(default_factory=anyio.Event)
    """Set to ask for it, once."""
    stands: anyio.Event = field(default_factory=anyio.Event)
    """Set when it has stood at a boundary as often as was asked."""

    scripted: ScriptedModel | None = None
    """Whose calls may have to be waited for."""

    def __post_init__(self) -> None:
        self._lock = threading.Lock()

    def record(self, step: Step) -> None:
        with self._lock:
            self.steps.append(step)

    def transcript(self, name: str) -> LabTranscript:
        return LabTranscript(self.folder / name)

    @property
    def park_requested(self) -> bool:
        return self.park.is_set()

    async def wait_park_requested(self) -> None:
        await self.park.wait()

    @asynccontextmanager
    async def awaiting_model(self) -> AsyncIterator[None]:
        """Nobody holds a call here: its turn of the script must have a gate."""
        assert self.scripted is not None
        while not any(played.end == "pending" for played in self.scripted.calls):
            await anyio.sleep(0.02)
        yield

    async def boundary(self, state: dict[str, Any] | None = None) -> None:
        self.boundaries.append(json.loads(json.dumps(state)))
        self.park = anyio.Event()
        if self.stop_after is not None and len(self.boundaries) >= self.stop_after:
            self.stands.set()
            await anyio.sleep_forever()

    def said(self, name: str) -> str:
        path = self.folder / name
        return path.read_text("utf-8", "replace") if path.exists() else ""

    def kinds(self) -> list[str]:
        return [step.kind for step in self.steps]


def no_box(folder: Path) -> LabEpisode:
    """An episode for what needs none."""
    return LabEpisode(task=AgentTask(instance_id="none"), box=cast(LentBox, None), folder=folder)


@dataclass
class LabBox:
    """A box of a task's environment, with what an agent needs in it."""

    box: Box
    task: Task
    base_commit: str
    url: str | None = None

    async def patch(self) -> Patch:
        return await take_patch(self.box, workdir=self.task.environment.workdir, base_commit=self.base_commit)

    def episode(self, folder: Path, model: ScriptedModel | None = None, **more: Any) -> LabEpisode:
        access = None
        if model is not None:
            access = ModelAccess(name=model.model, base_url=model.url, box_url=self.url, api_key=SecretStr(KEY))
        folder.mkdir(exist_ok=True, parents=True)
        seen = AgentTask.of(self.task, base_commit=self.base_commit)
        return LabEpisode(task=seen, box=self.box, folder=folder, model=access, scripted=model, **more)


@asynccontextmanager
async def lab_box(
    task: Task, provider: SandboxProvider, agent: Agent, model: ScriptedModel | None = None
) -> AsyncIterator[LabBox]:
    """A network-less box in which the scripted model is reached on a port of its own loopback interface."""
    prepared = await environments.prepare(provider, task.environment)
    needs, spec = agent.needs, prepared.spec()
    changes = {"mounts": (*spec.mounts, *needs.mounts), "env": {**spec.env, **needs.env}}
    box = await provider.create(spec.model_copy(update=changes))
    try:
        prepared = await pin_base(box, prepared)
        lab = LabBox(box, task, prepared.base_commit)
        async with anyio.create_task_group() as tasks:
            if model is not None:
                port, listener = await box.listen(PORT)  # type: ignore[attr-defined]
                lab.url = f"http://127.0.0.1:{port}/v1"
                tasks.start_soon(_forward, listener, model)
            yield lab
            tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await box.close()


async def _forward(listener: Any, model: ScriptedModel) -> None:
    listener.setblocking(False)
    with listener:
        async with anyio.create_task_group() as tasks:
            while True:
                await anyio.wait_readable(listener)
                connection, _address = listener.accept()
                tasks.start_soon(_join, connection, model)


async def _join(connection: Any, model: ScriptedModel) -> None:
    async with await SocketStream.from_socket(connection) as near:
        try:
            far = await anyio.connect_tcp("127.0.0.1", model.port)
        except OSError:
            return
        async with far, anyio.create_task_group() as tasks:
            tasks.start_soon(_copy, near, far)
            tasks.start_soon(_copy, far, near)


async def _copy(source: SocketStream, target: SocketStream) -> None:
    _ = source.extra(SocketAttribute.local_address, None)
    try:
        async for piece in source:
            await target.send(piece)
        await target.send_eof()
    except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        pass


async def grade(task: Task, patch: Patch, provider: SandboxProvider) -> Outcome:
    """What it is worth, in a fresh box."""
    from swe_sdk import aio

    return await aio.grade(task, patch, provider=provider)


@asynccontextmanager
async def lab(
    task: Task, provider: SandboxProvider, agent: Agent, model: ScriptedModel | None = None
) -> AsyncIterator[LabBox]:
    """The box for an agent whose harness is installed first."""
    await to_thread.run_sync(need_harness_installed, agent.name)
    async with lab_box(task, provider, agent, model) as box:
        yield box


async def played(
    agent: Agent, script: Sequence[Turn | Fault], provider: SandboxProvider, folder: Path
) -> tuple[AgentEnd, LabEpisode]:
    """An episode to its end, after which nothing of a harness runs in the box."""
    with ScriptedModel(script) as model:
        async with lab(mini_task(), provider, agent, model) as box:
            episode = box.episode(folder, model)
            end = await agent.run(episode)
            assert await programs(box.box, f"agents/{agent.name}") == []
            return end, episode


async def solve(
    task: Task, provider: SandboxProvider, agent: Agent, model: ScriptedModel, folder: Path
) -> tuple[AgentEnd, LabEpisode, Patch]:
    """An episode to its end: how it ended, what was recorded, and the patch as the engine would take it."""
    async with lab(task, provider, agent, model) as box:
        episode = box.episode(folder, model)
        end = await agent.run(episode)
        return end, episode, end.patch or await box.patch()


def gated(script: Sequence[Turn], *numbers: int) -> list[Turn]:
    """Turns that wait until the gate "go" is opened."""
    return [turn.model_copy(update={"gate": "go"}) if n in numbers else turn for n, turn in enumerate(script)]


async def stop_at_boundary(agent: Agent, episode: LabEpisode) -> dict[str, Any] | None:
    """Run it until it stands at its ``stop_after``-th boundary, and end it there. What it gave there; None where it
    came to its end before."""
    async with anyio.create_task_group() as tasks:

        async def run() -> None:
            await agent.run(episode)
            tasks.cancel_scope.cancel()

        tasks.start_soon(run)
        await episode.stands.wait()
        tasks.cancel_scope.cancel()
    return episode.boundaries[-1] if episode.stands.is_set() else None


async def programs(box: Box, words: str) -> list[str]:
    """Command lines of the processes in a box that contain ``words``."""
    found = await box.processes()  # type: ignore[attr-defined]
    return [process.command for process in found if words in process.command]


async def close_lab(provider: SandboxProvider) -> None:
    """Close it; images of environments that were built in its state directory go too."""
    if isinstance(provider, DockerProvider):
        records = "".join(path.read_text() for path in (provider.state / "environments").glob("*.json"))
        for snapshot in await provider.snapshots():
            if snapshot.id in records:
                await provider.delete_snapshot(snapshot.id)
    await provider.aclose()
