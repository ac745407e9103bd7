"""Those attacks of ``tests/escape`` that fit, against boxes on an image that Apptainer has mounted.

There programs are root in the box, and outside of it whoever runs the SDK: here root itself.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from swe_sdk.sandbox.contract import SandboxSpec
from swe_sdk.sandbox.providers.apptainer.provider import ApptainerProvider
from swe_sdk.sandbox.providers.local.box import LocalBox
from tests.escape import test_escape_commands as commands
from tests.escape import test_escape_files as files
from tests.escape import test_escape_kernel as kernel
from tests.escape import test_escape_mounts as mounts
from tests.escape import test_escape_network as network
from tests.escape import test_escape_proc as proc
from tests.escape import test_escape_resources as resources
from tests.escape import test_escape_signals as signals
from tests.escape import test_escape_supervisor as supervisor
from tests.escape import test_escape_layers as layers
from tests.escape.world import Guard

pytestmark = pytest.mark.anyio

test_new_mounts = mounts.test_new_mounts
test_unmounting_masks_and_binds = mounts.test_unmounting_masks_and_binds
test_the_newer_mount_calls = mounts.test_the_newer_mount_calls
test_settings_of_the_kernel = proc.test_settings_of_the_kernel
test_secrets_of_the_kernel = proc.test_secrets_of_the_kernel
test_magic_keys_and_other_switches = proc.test_magic_keys_and_other_switches
test_writing_memory_that_maps_host_files = proc.test_writing_memory_that_maps_host_files
test_processes_of_another_box = proc.test_processes_of_another_box
test_what_the_supervisor_holds = proc.test_what_the_supervisor_holds
test_namespaces_within = kernel.test_namespaces_within
test_joining_other_namespaces = kernel.test_joining_other_namespaces
test_keyrings = kernel.test_keyrings
test_refused_calls = kernel.test_refused_calls
test_calls_younger_than_the_filter = kernel.test_calls_younger_than_the_filter
test_calls_by_other_doors = kernel.test_calls_by_other_doors
test_clocks = kernel.test_clocks
test_host_name = kernel.test_host_name
test_limits_raised = kernel.test_limits_raised
test_control_groups_and_sysfs = kernel.test_control_groups_and_sysfs
test_loopback_of_this_machine = network.test_loopback_of_this_machine
test_addresses_beyond_the_box = network.test_addresses_beyond_the_box
test_sockets_of_another_box = network.test_sockets_of_another_box
test_changing_networks = network.test_changing_networks
test_raw_and_odd_sockets = network.test_raw_and_odd_sockets
test_device_nodes = layers.test_device_nodes
test_deep_directories = layers.test_deep_directories
test_names_and_modes_that_resist_deletion = layers.test_names_and_modes_that_resist_deletion
test_fifty_thousand_names = layers.test_fifty_thousand_names
test_every_signal_to_the_supervisor = signals.test_every_signal_to_the_supervisor
test_kill_everything = signals.test_kill_everything
test_a_flood_of_child_signals = signals.test_a_flood_of_child_signals
test_signals_that_descriptors_send = signals.test_signals_that_descriptors_send
test_death_signals_of_odd_children = signals.test_death_signals_of_odd_children
test_stopping_what_the_supervisor_starts = signals.test_stopping_what_the_supervisor_starts
test_killing_what_the_supervisor_starts = signals.test_killing_what_the_supervisor_starts
test_terminals = signals.test_terminals
test_programs_have_no_terminal = signals.test_programs_have_no_terminal
test_changing_its_limits_and_priority = supervisor.test_changing_its_limits_and_priority
test_taking_the_processor = supervisor.test_taking_the_processor
test_debugging_it = supervisor.test_debugging_it
test_leases_on_programs_and_files = supervisor.test_leases_on_programs_and_files
test_filling_the_process_table = supervisor.test_filling_the_process_table
test_a_storm_of_orphans = supervisor.test_a_storm_of_orphans
test_spinning_in_many_sessions = supervisor.test_spinning_in_many_sessions
test_huge_environments_and_arguments = supervisor.test_huge_environments_and_arguments
test_finding_its_socket = supervisor.test_finding_its_socket
test_what_the_next_program_loads = supervisor.test_what_the_next_program_loads
test_its_own_pipes = commands.test_its_own_pipes
test_standard_input_is_not_the_hosts = commands.test_standard_input_is_not_the_hosts
test_inherited_descriptors = commands.test_inherited_descriptors
test_threads_that_outlive_their_first = commands.test_threads_that_outlive_their_first
test_daemons_that_hide_whose_they_are = commands.test_daemons_that_hide_whose_they_are
test_passing_for_another_command = commands.test_passing_for_another_command
test_forged_endings = commands.test_forged_endings
test_killing_the_shell_that_runs_it = commands.test_killing_the_shell_that_runs_it
test_children_that_keep_the_pipes = commands.test_children_that_keep_the_pipes
test_the_workdir_taken_away = commands.test_the_workdir_taken_away
test_hard_links_to_files_of_this_machine = files.test_hard_links_to_files_of_this_machine
test_files_beyond_their_limit = files.test_files_beyond_their_limit
test_a_fork_bomb = resources.test_a_fork_bomb
test_a_fork_bomb_that_runs_out_of_time = resources.test_a_fork_bomb_that_runs_out_of_time
test_a_gigabyte_of_output = resources.test_a_gigabyte_of_output
test_output_that_never_ends = resources.test_output_that_never_ends
test_a_full_disk = resources.test_a_full_disk
test_all_descriptors = resources.test_all_descriptors
test_shared_memory_of_another_box = resources.test_shared_memory_of_another_box
test_the_processor_kept_busy_by_everybody = resources.test_the_processor_kept_busy_by_everybody


@pytest.fixture
async def make_box(provider: ApptainerProvider) -> AsyncIterator[Callable[..., Awaitable[LocalBox]]]:
    boxes: list[LocalBox] = []

    async def make(**spec: object) -> LocalBox:
        box = await provider.create(SandboxSpec.model_validate({"workdir": "/tmp", **spec}))
        assert isinstance(box, LocalBox)
        boxes.append(box)
        return box

    yield make
    for box in boxes:
        await box.close()


@pytest.fixture
async def box(make_box: Callable[..., Awaitable[LocalBox]]) -> AsyncIterator[LocalBox]:
    """A box to attack, which afterwards must be what it was, and serve."""
    found = await make_box()
    guard = Guard(found)
    yield found
    await guard.assert_holds()


@pytest.fixture
def user() -> str:
    return "root"
