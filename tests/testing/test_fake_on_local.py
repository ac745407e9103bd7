"""A fake provider around a real one keeps every promise that the real one keeps, while it injects nothing."""

from __future__ import annotations

import pytest

from swe_sdk.sandbox.contract import SandboxProvider
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from swe_sdk.testing.fake import FakeProvider
from swe_sdk.testing.provider_suite import ProviderSuite, provider_checks


@pytest.mark.usefixtures("local_works")
class TestFakeOnLocal(ProviderSuite):
    # What the fake only passes on (walls, limits, most ways out of a timeout) is left to the provider's own tests.
    select = (
        *("exec", "output", "files", "background", "pause", "lifecycle"),
        *(check.id for check in provider_checks(["snapshots"]) if "costs" not in check.name),
        "network/this_process_can_serve_inside_a_box",
        "isolation/processes_are_listed",
        "timeouts/a_timeout_is_a_status",
        "timeouts/a_timeout_kills_background_children",
        "timeouts/a_callback_that_fails_ends_the_command",
        "timeouts/cancelling_kills_daemons",
        "timeouts/cancelling_many_at_once_works",
    )

    def make_provider(self) -> SandboxProvider:
        return FakeProvider(inner=LocalProvider())
