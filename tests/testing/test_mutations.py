"""Every promise, broken on purpose, is noticed: the checks of the provider suite can fail."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import broken_providers as broken
import pytest

from swe_sdk.sandbox.contract import SandboxProvider
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from swe_sdk.testing.provider_suite import ProviderSettings, provider_checks
from swe_sdk.testing.session import Session

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("local_works")]
SETTINGS = ProviderSettings(prompt_s=1.5, exec_timeout_s=4.0, flood_bytes=40_000_000, parallel_execs=6)

BROKEN_BOXES: list[tuple[type[broken.FakeBox], str, str]] = [
    (broken.DropsStderr, "exec/standard_error_is_kept_apart", "standard error"),
    (broken.ReportsTimeoutsAs124, "timeouts/a_timeout_is_a_status", "124"),
    (broken.LeaksAtTimeout, "timeouts/a_timeout_kills_the_process", "still running"),
    (broken.LeaksAtTimeout, "timeouts/a_timeout_kills_background_children", "still running"),
    (broken.LeaksAtCancellation, "timeouts/cancelling_kills_the_process", "still running"),
    (
        broken.WaitsForPipes,
        "background/a_background_process_does_not_hold_up_its_command",
        "in the background|timed out",
    ),
    (broken.RetriesFailures, "exec/a_command_runs_exactly_once", "bytes written"),
    (broken.ReadsTroubleFromOutput, "isolation/printed_trouble_is_only_text", "SandboxLost"),
    (broken.ReadsTroubleFromExitCodes, "exec/exit_codes_are_told_as_they_were", "SandboxLost"),
    (broken.ReadsTroubleFromExitCodes, "exec/a_signal_death_is_an_exit", "ran out of memory"),
    (broken.ReadsTroubleFromExitCodes, "limits/only_memory_is_called_oom", "ran out of memory"),
    (broken.RunsDuringPauses, "pause/nothing_starts_during_a_pause", "during the pause"),
    (broken.SwallowsCallbackErrors, "timeouts/a_callback_that_fails_ends_the_command", "swallowed|still running"),
    (broken.ReadsTroubleFromExitCodes, "exec/a_missing_program_is_a_result", "SandboxLost"),
    (broken.DecodesOutput, "output/binary_output_is_intact", "standard output"),
    (broken.StripsOutput, "output/newlines_at_the_end_are_kept", "standard output"),
    (broken.DelaysOutput, "output/output_arrives_while_the_program_runs", "nothing arrived"),
    (broken.DelaysOutput, "output/pieces_are_not_cut", "bytes given to on_output"),
    (broken.KeepsAllOutput, "output/a_flood_is_cut_in_the_middle", "were kept under a limit"),
    (broken.KeepsAllOutput, "output/a_flood_does_not_fill_memory", "memory grew"),
    (broken.KeepsOnlyTheHead, "output/a_flood_is_cut_in_the_middle", "tail|were kept"),
    (broken.MiscountsOutput, "output/the_limit_is_exact", "kept and dropped"),
    (broken.ShowsVariablesOnCommandLines, "environment/values_are_not_on_a_command_line", "command line"),
    (broken.PassesOwnEnvironment, "environment/variables_of_this_process_stay_here", "variable of this process"),
    (broken.IgnoresTheDirectory, "environment/a_directory_can_be_chosen", "the directory"),
    (broken.IgnoresTheDirectory, "environment/a_missing_directory_is_not_blamed_on_the_sandbox", "cwd="),
    (broken.LeavesInputOpen, "exec/standard_input_is_empty", "waits"),
    (broken.CutsInput, "exec/five_megabytes_of_standard_input_arrive", "came back"),
    (broken.IgnoresTheUser, "exec/another_user_is_used_or_refused", "asked to run as"),
    (broken.RunsOneAtATime, "exec/many_commands_run_at_once", "waited for each other"),
    (broken.RunsOneAtATime, "background/a_long_command_does_not_hold_up_others", "holds up"),
    (broken.SaysMissingFilesAreEmpty, "files/a_missing_file_is_a_transfer_failure", "nothing was raised"),
    (broken.ResolvesLinksOutside, "files/reading_never_leaves_the_box", "of this machine"),
    (broken.ResolvesLinksOutside, "files/writing_never_leaves_the_box", "of this machine"),
    (broken.ForgetsModes, "files/modes_are_kept", "mode"),
    (broken.SpoilsNames, "files/odd_names_work", "No such file|TransferFailed"),
    (broken.HoldsFilesInMemory, "files/large_files_go_in", "memory grew"),
    (broken.DownloadsInPlace, "files/a_failed_download_leaves_nothing", "local file"),
    (broken.ClosesNothing, "lifecycle/closing_leaves_no_process", "alive after close"),
    (broken.ClosesNothing, "lifecycle/a_closed_box_refuses_everything", "nothing was raised"),
    (broken.ClosesNothing, "lifecycle/closing_ends_a_command_in_flight", "outlives its box"),
    (broken.ListensOutside, "network/this_process_can_serve_inside_a_box", "received"),
    (broken.PausesNothing, "pause/a_pause_stops_all_processes", "ran during a pause"),
    (broken.PausesNothing, "pause/the_status_tells_a_pause", "status of a paused box"),
    (broken.ListsNoProcesses, "isolation/processes_are_listed", "is not listed"),
]

BROKEN_PROVIDERS: list[tuple[type[broken.Broken], str, str]] = [
    (broken.GivesEverybodyTheSameBox, "isolation/boxes_do_not_share_files", "for d in"),
    (broken.GivesEverybodyTheSameBox, "isolation/boxes_do_not_share_processes", "of another"),
    (broken.GivesEverybodyTheSameBox, "lifecycle/a_new_box_is_running", "two boxes are named"),
    (broken.SharesTheNetwork, "network/listeners_of_this_machine_are_not_reached", "was reached"),
    (broken.SharesTheNetwork, "network/there_is_no_route", "interfaces"),
    (broken.ForgetsLimits, "limits/open_files_are_limited", "limit of open files"),
    (broken.ForgetsLimits, "limits/the_size_of_files_is_limited", "above the limit"),
    (broken.ForgetsLimits, "limits/processes_are_limited", "processes were made"),
    (broken.ForgetsLimits, "limits/memory_is_limited", "wanted 'oom'"),
    (broken.ForgetsLimits, "limits/processors_are_limited", "two busy loops"),
    (broken.SaysNothingOfLimits, "limits/every_limit_is_declared", "health report"),
    (broken.ForgetsLimits, "isolation/mounts_are_there_and_cannot_be_written", "No such file"),
    (broken.ForgetsLimits, "environment/variables_override_those_of_the_box", "with a variable"),
    (broken.ForksNothing, "snapshots/a_fork_has_every_file", "/data"),
    (broken.ForksNothing, "snapshots/an_unknown_snapshot_is_said_to_be_unknown", "nothing was raised"),
    (broken.MakesUpUnknownSnapshots, "snapshots/an_unknown_snapshot_is_said_to_be_unknown", "nothing was raised"),
    (broken.MakesUpUnknownSnapshots, "snapshots/deleting_a_snapshot_keeps_its_forks", "nothing was raised"),
    (broken.CopiesOnFork, "snapshots/a_fork_costs_the_same_whatever_it_holds", "a fork of nothing took"),
    (broken.KillsBeforeSnapshot, "snapshots/a_busy_box_is_not_frozen", "nothing was raised"),
    (broken.EmptiesTheBox, "snapshots/a_box_goes_on_after_a_snapshot", "/data"),
    (broken.ChoosesItsOwnIds, "snapshots/a_snapshot_gets_the_id_that_was_asked_for", "the id of the snapshot"),
    (broken.ForgetsDeletion, "snapshots/snapshots_are_listed", "deleted snapshot is listed"),
]


@pytest.fixture
async def local() -> AsyncIterator[LocalProvider]:
    provider = LocalProvider()
    yield provider
    await provider.aclose()


def _named(case: tuple[Any, str, str]) -> str:
    return f"{case[0].__name__}-{case[1].partition('/')[2]}"


@pytest.mark.parametrize("case", BROKEN_BOXES, ids=_named)
async def test_a_broken_box_is_found(case: tuple[type[broken.FakeBox], str, str], local: LocalProvider) -> None:
    box_type, check, because = case
    await _is_found(lambda: broken.Broken(local, box_type), check, because)


@pytest.mark.parametrize("case", BROKEN_PROVIDERS, ids=_named)
async def test_a_broken_provider_is_found(case: tuple[type[broken.Broken], str, str], local: LocalProvider) -> None:
    provider_type, check, because = case
    await _is_found(lambda: provider_type(local), check, because)


async def _is_found(make: Callable[[], SandboxProvider], name: str, because: str) -> None:
    (check,) = provider_checks([name])
    result = await Session(make(), SETTINGS).result(check)
    if result.outcome == "not_applicable":
        pytest.skip(result.message)
    assert result.outcome == "failed", f"{name} did not notice: {result}"
    assert re.search(because, result.message), result.message
