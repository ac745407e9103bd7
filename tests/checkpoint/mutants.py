"""Defects that the checkpoint tests must find: each puts one back, and names the test that then fails.

``python scripts/checkpoint_mutants.py`` tries them all.
"""

from __future__ import annotations

from dataclasses import dataclass

P = "participants"


@dataclass(frozen=True)
class Mutant:
    """``before`` stands once in ``file`` (below swe_sdk/checkpoint) and becomes ``after``; ``test`` then fails."""

    name: str
    file: str
    before: str
    after: str
    test: str


MUTANTS = (
    Mutant(
        "CK-1: a restored boundary is lost while its activation waits",
        f"{P}/agent.py",
        "saved = session.saved if session.saved_index == index else None",
        "saved = None",
        "test_agent.py::test_ck1_a_restored_boundary_survives_a_wait",
    ),
    Mutant(
        "CK-1: it is delivered, but not the first snapshot",
        f"{P}/activation.py",
        "self._snapshot: Callable[[], Any] | Any = saved",
        "self._snapshot: Callable[[], Any] | Any = None",
        "test_agent.py::test_ck1_a_restored_boundary_survives_a_wait",
    ),
    Mutant(
        "CK-1: it is dropped before its activation has begun",
        f"{P}/agent.py",
        "                await activation.enter()\n",
        "                session.saved_index, session.saved = None, None\n                await activation.enter()\n",
        "test_agent.py::test_ck1_a_restored_boundary_survives_until_its_activation_begins",
    ),
    Mutant(
        "CK-1: a slot granted while closed starts work",
        f"{P}/activation.py",
        "                acquired = True\n                await self._pass()\n",
        "                acquired = True\n",
        "test_agent.py::test_ck1_a_slot_granted_while_closed_starts_no_work_before_resume",
    ),
    Mutant(
        "CK-2: seeded again only where a sandbox is lent",
        "turn.py",
        "return self.borrowed_sandbox or self.holds_grants",
        "return self.borrowed_sandbox",
        "test_turn.py::test_ck2_access_of_one_attempt_is_given_again_at_invoke_agent",
    ),
    Mutant(
        "CK-2: seeded again for direct calls as well",
        "turn.py",
        "return self.borrowed_sandbox or self.holds_grants",
        "return True",
        "test_turn.py::test_ck2_access_of_one_attempt_is_given_again_at_invoke_agent",
    ),
    Mutant(
        "CK-2: seeded again before the verification",
        "turn.py",
        'not in ("invoke_agent", "close_agent")',
        'not in ("invoke_agent", "close_agent", "verify")',
        "test_turn.py::test_ck2_access_is_given_again_before_close_agent_and_not_later",
    ),
    Mutant(
        "CK-2: old grants stay good",
        "grants.py",
        "                del self._grants[token]\n",
        "                pass\n",
        "test_turn.py::test_grants_are_of_one_attempt",
    ),
    Mutant(
        "CK-3: what was spent before is forgotten",
        f"{P}/episodes.py",
        "spent_s=saved.budget_spent_s if saved else 0.0",
        "spent_s=0.0",
        "test_episodes.py::test_ck3_two_restores_accumulate",
    ),
    Mutant(
        "CK-3: parked time is charged",
        "step_clock.py",
        "return self._budget.park(passed) if self.is_suspended else self._budget.spend(passed)",
        "return self._budget.spend(passed)",
        "test_episodes.py::test_ck3_what_is_spent_is_sampled_at_the_cut",
    ),
    Mutant(
        "CK-3: a replay step under a closed checkpoint is charged",
        f"{P}/episode.py",
        'self.state in ("parked", "replay_step")',
        'self.state == "parked"',
        "test_episodes.py::test_ck3_what_is_spent_is_sampled_at_the_cut",
    ),
    Mutant(
        "CK-3: the saved stage is advanced",
        f"{P}/episode.py",
        "                await self._host.until_open()\n        finally:\n"
        '            self._enter("running")\n\n    async def boundary',
        '                pass\n        finally:\n            self._enter("running")\n\n    async def boundary',
        "test_episodes.py::test_a_wait_step_and_running_code_block",
    ),
    Mutant(
        "CK-4: an older checkpoint may release",
        "protocol/table.py",
        '        fence="not newest",\n',
        '        fence="nothing",\n',
        "test_operations.py::test_ck4_a_late_release_of_an_older_checkpoint_calls_no_hook",
    ),
    Mutant(
        "CK-4: a late resume makes an older checkpoint the newest",
        "protocol/machine.py",
        "    fenced = control\n",
        "    fenced = replace(control, newest=call.checkpoint_id)\n",
        "test_operations.py::test_ck4_a_late_release_of_an_older_checkpoint_calls_no_hook",
    ),
    Mutant(
        "CK-4: a release while a checkpoint is open",
        "protocol/table.py",
        "        idle=True,\n        open_phases=(),\n",
        '        idle=True,\n        open_phases=("prepared", "committed", "restored"),\n',
        "test_operations.py::test_ck4_nothing_is_released_while_a_checkpoint_is_open",
    ),
    Mutant(
        "CK-5: a slot is lost with whoever is retired",
        f"{P}/activation.py",
        "            if acquired:\n                slot.release()\n",
        "            if acquired and not self.scope.cancel_called:\n                slot.release()\n",
        "test_agent.py::test_ck5_a_slot_is_given_back_however_its_block_ends",
    ),
    Mutant(
        "CK-6: restarts park",
        f"{P}/activation.py",
        "return self._host.is_closed and not self.is_restart",
        "return self._host.is_closed",
        "test_agent.py::test_ck6_a_restart_does_not_park_in_a_queue",
    ),
    Mutant(
        "CK-7: a restart is known only after its seed",
        f"{P}/agent.py",
        "session = AgentSession(body.session_id, body, seed_key(body), is_restart)",
        "session = AgentSession(body.session_id, body, seed_key(body))",
        "test_agent.py::test_ck7_a_restart_is_known_before_its_session_could_be_saved",
    ),
    Mutant(
        "CK-7: who holds grants is no restart",
        "hooks.py",
        "return bool(body.tool_grants) and not self.rebinds_tool_accesses",
        "return False",
        "test_turn.py::test_ck2_ck7_an_agent_that_cannot_rebind_makes_its_episode_a_restart",
    ),
    Mutant(
        "CK-7: the episode is not told",
        "turn.py",
        "            await self._episode.mark_restart()\n",
        "            pass\n",
        "test_turn.py::test_ck2_ck7_an_agent_that_cannot_rebind_makes_its_episode_a_restart",
    ),
    Mutant(
        "CK-8: the lent sandbox is not in the bookmark",
        "turn.py",
        '"borrowed_sandbox": seed.sandbox is not None',
        '"borrowed_sandbox": False',
        "test_turn.py::test_ck2_access_of_one_attempt_is_given_again_at_invoke_agent",
    ),
    Mutant(
        "CK-8: seeding again is a wait step",
        "turn.py",
        '            return\n        async with self._episode.step("replay"):',
        '            return\n        async with self._episode.step("wait"):',
        "test_turn.py::test_ck8_seeding_again_is_a_replay_step",
    ),
    Mutant(
        "CK-8: release reaches hooks that saved nothing",
        f"{P}/resources.py",
        'return await self.hooks.release_external_state(kept) if self.mode == "exported" else 0',
        "return await self.hooks.release_external_state(kept)",
        "test_operations.py::test_ck8_release_reaches_the_hook_in_exported_mode_only",
    ),
    Mutant(
        "CK-8: release does not reach the hook",
        f"{P}/resources.py",
        'return await self.hooks.release_external_state(kept) if self.mode == "exported" else 0',
        "return 0",
        "test_operations.py::test_ck8_release_reaches_the_hook_in_exported_mode_only",
    ),
    Mutant(
        "CK-8: hooks are told another checkpoint",
        f"{P}/base.py",
        "records = await self._export(call.checkpoint_id, scope)",
        'records = await self._export("c1", scope)',
        "test_operations.py::test_ck8_the_hooks_are_told_the_checkpoint_that_is_committed",
    ),
    Mutant(
        "CK-8: another seed is accepted",
        f"{P}/agent.py",
        "        if not (is_same or rebinds):\n            raise _other_seed(body)\n",
        "",
        "test_turn.py::test_ck8_an_agent_that_does_not_rebind_accepts_the_same_seed_and_no_other",
    ),
    Mutant(
        "CK-9: hooks are not checked",
        f"{P}/agent.py",
        "        check_agent_hooks(self.hooks)\n",
        "",
        "test_agent.py::test_ck9_hooks_are_checked_when_the_participant_is_made",
    ),
    Mutant(
        "CK-10: a release is not cut at its deadline",
        f"{P}/base.py",
        'with within(self._left(call), "release"):',
        'with within(3600.0, "release"):',
        "test_operations.py::test_ck10_a_release_runs_under_the_lock",
    ),
    Mutant(
        "CK-10: retention by name",
        "snapshots/index.py",
        "if one.provider == provider and not one.checkpoints & kept]",
        'if one.provider == provider and one.name.split(".")[0] not in kept]',
        "test_checkpoint_snapshots.py::test_what_has_not_changed_is_not_frozen_again",
    ),
    Mutant(
        "CK-11: a relative state_dir",
        "settings.py",
        "if state_dir is not None and not state_dir.is_absolute():",
        "if False:",
        "test_coordination.py::test_ck11_state_dir_is_absolute",
    ),
    Mutant(
        "CK-12: old records do not load",
        "records.py",
        'validation_alias=AliasChoices("elapsed_s", "budget_spent_s"),',
        'validation_alias=AliasChoices("budget_spent_s"),',
        "test_episodes.py::test_ck3_records_without_the_field",
    ),
    Mutant(
        "CK-15: first seeds in flight block",
        f"{P}/agent.py",
        "for key, episode in self._seeds_again.items()]",
        "for key, episode in (*self._seeds_again.items(), *((one, one) for one in self._first_seeds))]",
        "test_agent.py::test_ck15_first_seeds_in_flight_are_restarts_of_that_checkpoint_only",
    ),
    Mutant(
        "CK-15: first seeds that finish while closed are saved",
        f"{P}/agent.py",
        "return session.is_restart or session.key in self._cut_seeds",
        "return session.is_restart",
        "test_agent.py::test_ck15_first_seeds_in_flight_are_restarts_of_that_checkpoint_only",
    ),
    Mutant(
        "CK-15: restarts stay restarts",
        f"{P}/agent.py",
        "        self._cut_seeds = {key",
        "        self._cut_seeds |= {key",
        "test_agent.py::test_ck15_first_seeds_in_flight_are_restarts_of_that_checkpoint_only",
    ),
    Mutant(
        "CK-15: a seed of an existing session does not block",
        f"{P}/agent.py",
        "for key, episode in self._seeds_again.items()]",
        "for key, episode in ()]",
        "test_agent.py::test_ck15_a_seed_of_an_existing_session_blocks",
    ),
    Mutant(
        "a participant stays closed when its lease ends",
        f"{P}/base.py",
        "        self._tasks.start_soon(self._keep_lease)\n",
        "",
        "test_operations.py::test_a_participant_opens_by_itself_when_its_lease_ends",
    ),
    Mutant(
        "a late renewal shortens the lease",
        "protocol/machine.py",
        "until = max(call.deadline_ts + grace_s, control.lease_expires_at or 0.0)",
        "until = call.deadline_ts + grace_s",
        "test_protocol.py::test_the_lease_is_the_deadline_plus_the_grace_period_and_never_shorter",
    ),
    Mutant(
        "an id that was never seen is not fenced",
        "protocol/machine.py",
        "    if call.checkpoint_id not in control.resumed:\n",
        "    if call.checkpoint_id not in control.resumed and control.checkpoint_id == call.checkpoint_id:\n",
        "test_random_protocol.py",
    ),
    Mutant(
        "a retried commit exports again",
        "protocol/machine.py",
        '        raise refuse("invalid_phase", f"{working.operation} is under way", remedy="wait for it, or resume")\n',
        '        raise refuse("invalid_phase", f"{working.operation} is under way", remedy="wait for it, or resume")\n'
        '    if call.operation == "commit":\n        return Step(control, "work")\n',
        "test_operations.py::test_an_export_outlives_its_deadline_and_a_retry_awaits_the_same_one",
    ),
    Mutant(
        "a manifest is replaced",
        "store.py",
        "        if read_manifest(place) != manifest:\n",
        "        if False:\n",
        "test_coordination.py::test_the_manifest_is_last_and_never_replaced",
    ),
    Mutant(
        "digests are not compared",
        "store.py",
        "if hashlib.sha256(data).hexdigest() != manifest.records_sha256:",
        "if False:",
        "test_coordination.py::test_damaged_checkpoints_are_skipped_with_a_warning",
    ),
    Mutant(
        "what was restored and not claimed is not saved again",
        f"{P}/episodes.py",
        "return parked + [one for one in self._pending.values() if scope is None or one.episode_id in scope]",
        "return parked",
        "test_episodes.py::test_an_episode_that_nobody_claimed_is_saved_again",
    ),
    Mutant(
        "the state of an attempt to come is left out",
        f"{P}/calls.py",
        "return next(later, None) if unclaimed else None",
        "return None",
        "test_turn.py::test_ck8_seeding_again_is_a_replay_step",
    ),
    Mutant(
        "sessions seeded just before the cut are left behind",
        "turn.py",
        '            await self._episode.boundary(self.bookmark.model_dump(mode="json"))\n        async with',
        "        async with",
        "test_turn.py::test_what_was_seeded_just_before_the_cut_is_found_again",
    ),
    Mutant(
        "a dropped checkpoint can still be restored while its snapshots go",
        "controller.py",
        "            await to_thread.run_sync(catalog.mark_released, path)\n",
        "            pass\n",
        "test_coordination.py::test_retention_drops_records_and_releases_what_they_needed",
    ),
    Mutant(
        "half a restore stays",
        "snapshots/checkpointer.py",
        "                await self._each(list(boxes), lambda session: boxes[session].close())\n",
        "                pass\n",
        "test_checkpoint_snapshots.py::test_a_restore_is_all_or_nothing",
    ),
    Mutant(
        "snapshots are not written down before they exist",
        "snapshots/checkpointer.py",
        "        await to_thread.run_sync(self.index.intend, checkpoint_id, self.provider.name, fresh)\n",
        "",
        "test_checkpoint_snapshots.py::test_a_failed_snapshot_fails_the_export_and_what_was_made_is_released",
    ),
    Mutant(
        "a lent sandbox is taken for unchanged",
        "snapshots/checkpointer.py",
        "            held.generation += held.is_lent\n",
        "            pass\n",
        "test_random_runs.py::test_a_run_that_is_killed_twice_goes_on_from_its_checkpoints",
    ),
    Mutant(
        "a delivered reply is held, and asked for again",
        f"{P}/activation.py",
        "        if self.park_requested:\n            await self._host.until_open()\n",
        "        await anyio.sleep(0.5)\n        if self.park_requested:\n            await self._host.until_open()\n",
        "test_random_runs.py",
    ),
    Mutant(
        "what was restored and is out of scope is kept for ever",
        f"{P}/base.py",
        "await self._drop_unclaimed(frozenset(request.episode_ids))",
        "pass",
        "test_operations.py::test_what_was_restored_and_is_out_of_scope_is_freed_by_the_next_commit",
    ),
    Mutant(
        "a clock that is set forward keeps a participant closed",
        f"{P}/base.py",
        "min(max(0.0, left), LEASE_POLL_S)",
        "max(0.0, left)",
        "test_operations.py::test_a_clock_that_is_set_forward_keeps_nobody_closed",
    ),
    Mutant(
        "a checkpoint without its details counts as the oldest",
        "catalog.py",
        "number=max(1, int(told[1])) if told else 1",
        "number=1",
        "test_coordination.py::test_a_checkpoint_that_has_lost_its_details_keeps_its_place",
    ),
)
