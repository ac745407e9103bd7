"""The E2B provider keeps the promises of the sandbox contract, in both dialects, one test item a check.

Each check makes a container or more, so that all of them take minutes: ``SWE_SDK_WHOLE_SUITE`` (any value) makes all,
otherwise those are made in which the wire, and not the supervisor that all remote boxes share, has most to do.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import ClassVar

import pytest

from swe_sdk.sandbox.contract import SandboxProvider
from swe_sdk.sandbox.providers.e2b.provider import E2BProvider
from swe_sdk.sandbox.providers.e2b.settings import API_KEY
from swe_sdk.sandbox.providers.e2b.settings import TEMPLATE as TEMPLATE_VARIABLE
from swe_sdk.testing.provider_suite import PROVIDER_CHECKS, ProviderSettings, ProviderSuite
from tests.sandbox.e2b.stubs import KEY, TEMPLATE, Server, serving, shared_state

_BOTH = (
    "lifecycle/an_unknown_image_is_a_typed_error",
    "lifecycle/a_cancelled_create_does_no_harm",
    "snapshots/a_fork_has_every_file",
    "snapshots/an_unknown_snapshot_is_said_to_be_unknown",
    "snapshots/snapshots_are_listed",
    "pause/a_command_survives_a_pause",
    "reaping/a_killed_process_leaves_boxes_that_its_leases_lead_to",
)
_ONCE = (
    "lifecycle/capabilities_are_there",
    "lifecycle/closing_ends_a_command_in_flight",
    "exec/arguments_may_be_any_bytes",
    "exec/five_megabytes_of_standard_input_arrive",
    "exec/many_commands_leave_no_descriptors_open",
    "environment/any_value_of_a_variable_arrives",
    "environment/values_are_not_on_a_command_line",
    "output/both_streams_may_flood_at_once",
    "output/output_arrives_while_the_program_runs",
    "timeouts/a_timeout_kills_daemons_without_environment",
    "files/bytes_come_back_as_they_were",
    "isolation/mounts_are_there_and_cannot_be_written",
    "network/there_is_no_route",
    "snapshots/deleting_a_snapshot_keeps_its_forks",
    "snapshots/a_paused_box_is_frozen_in_the_middle_of_a_command",
)
_OF_LIVE_PROGRAMS = "snapshots/a_paused_box_is_frozen_in_the_middle_of_a_command"
_WHOLE = "SWE_SDK_WHOLE_SUITE" in os.environ


class _OnStub(ProviderSuite):
    dialect: ClassVar[str]
    settings = ProviderSettings(parallel_boxes=6, timeout_s=2.0, prompt_s=20.0)
    _environment: ClassVar[pytest.MonkeyPatch]
    _stack: ClassVar[ExitStack]
    _server: ClassVar[Server]

    @classmethod
    def setup_class(cls) -> None:
        cls._stack = ExitStack()
        cls._server = cls._stack.enter_context(serving(cls.dialect))
        cls._environment = pytest.MonkeyPatch()
        for name, value in ((API_KEY, KEY), (TEMPLATE_VARIABLE, TEMPLATE)):  # another process has them from there
            cls._environment.setenv(name, value)
        super().setup_class()

    @classmethod
    def teardown_class(cls) -> None:
        with cls._stack:
            super().teardown_class()
            cls._environment.undo()
            assert cls._server.containers() == []

    def make_provider(self) -> SandboxProvider:
        return E2BProvider(state=shared_state(), **self._server.settings)


class TestE2B(_OnStub):
    dialect = "e2b"
    select = () if _WHOLE else _BOTH + _ONCE


class TestAgentEnv(_OnStub):
    """Its snapshots hold memory, so those of live programs are refused: ``test_e2b_boxes`` has that."""

    dialect = "agentenv"
    select = tuple(check.id for check in PROVIDER_CHECKS if check.id != _OF_LIVE_PROGRAMS) if _WHOLE else _BOTH
