"""What tests/checkpoint asks of participants, asked over HTTP: CK-2, CK-4, CK-7, CK-8, CK-10, CK-15 and all else there.

The same tests are made again while every operation, whoever asks for it, is an HTTP call to the control routes.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.checkpoint import test_agent, test_coordination, test_episodes, test_model, test_operations, test_turn
from tests.server.control.over_http import everything_over_http

_MODULES = (test_agent, test_coordination, test_episodes, test_model, test_operations, test_turn)
_ASK_FOR_NOTHING = (
    "test_a_checkpoint_that_has_lost_its_details_keeps_its_place",
    "test_a_count_that_does_not_fit_is_refused",
    "test_bookmarks_of_older_versions_load",
    "test_checkpoint_ids_are_plain_names",
    "test_ck11_state_dir_is_absolute_and_checked_at_the_start",
    "test_ck9_hooks_are_checked_when_the_participant_is_made",
    "test_damaged_records_are_refused",
    "test_errors_survive_a_process_boundary",
    "test_grants_are_of_one_attempt",
    "test_only_records_in_scope_are_looked_into",
    "test_requests_refuse_unknown_fields_and_endless_deadlines",
    "test_retention_keeps_what_it_says_and_what_is_needed",
    "test_sessions_are_seeded_once_and_closed_for_good",
    "test_the_manifest_is_last_and_never_replaced",
    "test_the_whole_checkpoint_refuses_what_it_does_not_know_and_reads_version_1",
    "test_what_is_closed_while_it_is_seeded_is_not_left",
)
_WANT_ERRORS_OF_HOOKS = (
    "test_a_failed_export_stays_prepared_and_may_be_repeated",
    "test_a_failed_restore_leaves_nothing_anywhere",
    "test_a_failing_readiness_opens_again",
    "test_a_restore_needs_an_empty_agent_and_a_failed_one_opens_it",
)
"""They catch what a hook has raised by its type; over HTTP it is a ``checkpoint_error`` (see test_control_routes)."""
_LEFT_OUT = frozenset((*_ASK_FOR_NOTHING, *_WANT_ERRORS_OF_HOOKS))

globals().update(
    (name, one)
    for module in _MODULES
    for name, one in vars(module).items()
    if name.startswith("test_") and callable(one) and name not in _LEFT_OUT
)


@pytest.fixture(autouse=True)
def _over_http() -> Iterator[None]:
    with everything_over_http() as calls:
        yield
    assert calls.count
