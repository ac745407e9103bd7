"""The OpenSandbox provider keeps the promises of the sandbox contract, one test item a check, on a real server.

Each check makes a container or more, so that all of them take minutes: ``SWE_SDK_WHOLE_SUITE`` (any value) makes all,
otherwise those are made in which this provider has most of its own to do.
"""

from __future__ import annotations

import os

from swe_sdk.sandbox.contract import SandboxProvider, SandboxSpec
from swe_sdk.testing.provider_suite import ProviderSettings, ProviderSuite
from tests.sandbox.docker.images import debian_image
from tests.sandbox.opensandbox.osb_lab import ground, make_provider

_CHOSEN = (
    "exec/arguments_may_be_any_bytes",
    "exec/no_descriptors_are_inherited",
    "exec/five_megabytes_of_standard_input_arrive",
    "output/pieces_make_up_the_output",
    "output/both_streams_may_flood_at_once",
    "timeouts/a_timeout_kills_daemons_without_environment",
    "background/orphans_are_reaped",
    "files/modes_do_not_keep_us_out",
    "files/pipes_and_devices_do_not_hang",
    "lifecycle/capabilities_are_there",
    "lifecycle/closing_ends_a_command_in_flight",
    "limits/every_limit_is_declared",
    "limits/memory_is_limited",
    "isolation/mounts_are_there_and_cannot_be_written",
    "snapshots/a_fork_has_every_file",
    "pause/a_command_survives_a_pause",
    "reaping/a_live_box_is_listed_and_left_alone",
)


class TestOpenSandbox(ProviderSuite):
    """Boxes have the bridge's network, and whoever has set this up has accepted that."""

    select = () if "SWE_SDK_WHOLE_SUITE" in os.environ else _CHOSEN

    @classmethod
    def setup_class(cls) -> None:
        spec = SandboxSpec(snapshot=ground()) if cls.select else SandboxSpec(image=debian_image())
        cls.settings = ProviderSettings(spec=spec, parallel_boxes=4, parallel_execs=12, timeout_s=2.0, prompt_s=20.0)
        super().setup_class()

    def make_provider(self) -> SandboxProvider:
        return make_provider()
