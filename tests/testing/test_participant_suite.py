"""The suite for hooks passes on hooks that are right, and names what is wrong with others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import pytest

from swe_sdk.checkpoint import AgentHooks, ResourcesHooks, SandboxCheckpointer
from swe_sdk.sandbox.contract import SandboxSpec
from swe_sdk.testing import FakeProvider, ParticipantCase, ParticipantSuite, run_participant_suite
from swe_sdk.testing.participant_suite import PARTICIPANT_CHECKS, participant_checks

numbers = count()


class Disk:
    """What outlives a process: blobs, and which checkpoints refer to each."""

    def __init__(self) -> None:
        self.blobs: dict[str, str] = {}
        self.references: dict[str, set[str]] = {}


class DiskHooks(ResourcesHooks):
    """Sessions whose text is kept in blobs, named by content: two checkpoints may share one."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.texts: dict[str, str] = {}

    def checkpoint_mode_in_effect(self) -> Any:
        return "exported"

    async def export_session_states(self, ids: Iterable[str], *, checkpoint_id: str) -> Mapping[str, Any]:
        for one in ids:
            blob = f"blob {self.texts[one]}"
            self.disk.blobs[blob] = self.texts[one]
            self.disk.references.setdefault(blob, set()).add(checkpoint_id)
        return {one: f"blob {self.texts[one]}" for one in ids}

    async def restore_session_states(self, states: Mapping[str, Any]) -> None:
        self.texts.update({one: self.disk.blobs[blob] for one, blob in states.items()})

    async def retire_session_state(self, session_id: str) -> None:
        self.texts.pop(session_id, None)

    async def release_external_state(self, kept: frozenset[str]) -> int:
        unneeded = [blob for blob, needed in self.disk.references.items() if not needed & kept]
        for blob in unneeded:
            del self.disk.blobs[blob], self.disk.references[blob]
        return len(unneeded)


class DiskCase(ParticipantCase):
    def __init__(self, hooks: Callable[[Disk], ResourcesHooks] = DiskHooks) -> None:
        self.disk = Disk()
        self.hooks = hooks

    def make(self) -> ResourcesHooks:
        return self.hooks(self.disk)

    async def begin(self, hooks: Any, session_id: str) -> None:
        hooks.texts[session_id] = f"first of {session_id}"

    async def change(self, hooks: Any, session_id: str) -> None:
        hooks.texts[session_id] += f", {next(numbers)}"

    async def look(self, hooks: Any, session_id: str) -> Any:
        return hooks.texts[session_id]


class SandboxCase(ParticipantCase):
    def __init__(self, state_dir: Path) -> None:
        self.provider = FakeProvider()
        self.state_dir = state_dir

    def make(self) -> SandboxCheckpointer:
        return SandboxCheckpointer(self.provider, state_dir=self.state_dir)

    async def begin(self, hooks: SandboxCheckpointer, session_id: str) -> None:
        hooks.add(session_id, await self.provider.create(SandboxSpec()))
        await self.change(hooks, session_id)

    async def change(self, hooks: SandboxCheckpointer, session_id: str) -> None:
        await hooks.get(session_id).write("/state", f"{session_id} {next(numbers)}".encode())

    async def look(self, hooks: SandboxCheckpointer, session_id: str) -> Any:
        return await hooks.get(session_id).read("/state")

    async def end(self, hooks: SandboxCheckpointer) -> None:
        await hooks.aclose()


class ListAgent(AgentHooks):
    """An agent whose sessions are lists."""

    def __init__(self) -> None:
        self.lists: dict[str, list[int]] = {}

    async def export_agent_sessions(self, keys: Iterable[str], *, checkpoint_id: str) -> Mapping[str, Any]:
        return {key: list(self.lists[key]) for key in keys}

    async def restore_agent_sessions(self, states: Mapping[str, Any]) -> None:
        self.lists.update(states)

    async def retire_agent_session(self, key: str) -> None:
        self.lists.pop(key, None)


class AgentCase(ParticipantCase):
    def make(self) -> AgentHooks:
        return ListAgent()

    async def begin(self, hooks: Any, session_id: str) -> None:
        hooks.lists[session_id] = [next(numbers)]

    async def change(self, hooks: Any, session_id: str) -> None:
        hooks.lists[session_id].append(next(numbers))

    async def look(self, hooks: Any, session_id: str) -> Any:
        return list(hooks.lists[session_id])


class TestDiskHooks(ParticipantSuite):
    def make_case(self) -> ParticipantCase:
        return DiskCase()


class TestListAgent(ParticipantSuite):
    def make_case(self) -> ParticipantCase:
        return AgentCase()


def test_the_hooks_of_sandboxes_pass(tmp_path: Path) -> None:
    report = anyio.run(run_participant_suite, SandboxCase(tmp_path))
    assert report.ok, str(report)
    assert len(report.passed) == len(PARTICIPANT_CHECKS)


class OldSignature(DiskHooks):
    async def export_session_states(self, ids: Iterable[str]) -> Mapping[str, Any]:  # type: ignore[override]
        return {}


class NewMode(DiskHooks):
    def checkpoint_mode_in_effect(self) -> Any:
        return "mostly"


class ForgetsState(DiskHooks):
    async def restore_session_states(self, states: Mapping[str, Any]) -> None:
        self.texts.update(dict.fromkeys(states, ""))


class ExportMoves(DiskHooks):
    async def export_session_states(self, ids: Iterable[str], *, checkpoint_id: str) -> Mapping[str, Any]:
        states = await super().export_session_states(ids, checkpoint_id=checkpoint_id)
        self.texts.update(dict.fromkeys(ids, "moved"))
        return states


class ReadsTheLiveState(DiskHooks):
    """Keeps sessions where the next process finds them as they were last, and not as they were saved."""

    shared: dict[str, str] = {}  # noqa: RUF012

    def __init__(self, disk: Disk) -> None:
        super().__init__(disk)
        self.texts = self.shared

    async def restore_session_states(self, states: Mapping[str, Any]) -> None:
        """They are there already."""


class MixesUp(DiskHooks):
    async def restore_session_states(self, states: Mapping[str, Any]) -> None:
        blobs = list(reversed(list(states.values())))
        self.texts.update({one: self.disk.blobs[blob] for one, blob in zip(states, blobs, strict=True)})


class ConsumesOnRestore(DiskHooks):
    async def restore_session_states(self, states: Mapping[str, Any]) -> None:
        self.texts.update({one: self.disk.blobs.pop(blob) for one, blob in states.items()})


class ReleasesByName(DiskHooks):
    """Names a blob by the checkpoint that made it first, and deletes by that name."""

    def __init__(self, disk: Disk) -> None:
        super().__init__(disk)
        self.made: dict[str, str] = {}

    async def export_session_states(self, ids: Iterable[str], *, checkpoint_id: str) -> Mapping[str, Any]:
        states = await super().export_session_states(ids, checkpoint_id=checkpoint_id)
        for blob in states.values():
            self.made.setdefault(blob, checkpoint_id)
        return states

    async def release_external_state(self, kept: frozenset[str]) -> int:
        for blob in [blob for blob, name in self.made.items() if name not in kept]:
            self.disk.blobs.pop(blob, None)
        return 0


class ReleaseFailsTwice(DiskHooks):
    released: set[str] = set()  # noqa: RUF012

    async def release_external_state(self, kept: frozenset[str]) -> int:
        for blob in self.disk.references:
            if not self.disk.references[blob] & kept:
                del self.disk.blobs[blob]  # and raises the second time
        return 0


class RetireDeletesBlobs(DiskHooks):
    async def retire_session_state(self, session_id: str) -> None:
        self.disk.blobs.pop(f"blob {self.texts.pop(session_id, None)}", None)


class RetireOnce(DiskHooks):
    async def retire_session_state(self, session_id: str) -> None:
        del self.texts[session_id]


MUTANTS: dict[type[DiskHooks], str] = {
    OldSignature: "the_hooks_are_accepted",
    NewMode: "the_mode_is_one_of_three",
    ForgetsState: "a_restored_session_is_as_it_was_saved",
    ExportMoves: "saving_changes_nothing",
    ReadsTheLiveState: "what_comes_after_the_cut_is_not_in_it",
    MixesUp: "sessions_are_not_mixed_up",
    ConsumesOnRestore: "one_checkpoint_can_be_restored_again_and_again",
    ReleasesByName: "what_a_kept_checkpoint_needs_is_never_released",
    ReleaseFailsTwice: "a_release_may_be_cut_and_made_again",
    RetireDeletesBlobs: "a_retired_session_leaves_its_checkpoints_alone",
    RetireOnce: "a_retired_session_leaves_its_checkpoints_alone",
}


@pytest.mark.parametrize(("hooks", "check"), MUTANTS.items(), ids=lambda one: getattr(one, "__name__", ""))
def test_wrong_hooks_fail_by_name(hooks: type[DiskHooks], check: str) -> None:
    report = anyio.run(run_participant_suite, DiskCase(hooks))
    assert check in [result.name for result in report.failed], str(report)


def test_hooks_that_save_nothing_are_restarts() -> None:
    class SavesNothing(DiskHooks):
        def checkpoint_mode_in_effect(self) -> Any:
            return "restart_only"

    report = anyio.run(run_participant_suite, DiskCase(SavesNothing))
    assert report.ok
    assert len(report.not_applicable) == len(PARTICIPANT_CHECKS) - 3


def test_checks_are_selected_by_name() -> None:
    (check,) = participant_checks(["sessions_are_not_mixed_up"])
    assert check.about
    with pytest.raises(ValueError, match="no check is named nothing"):
        participant_checks(["nothing"])
