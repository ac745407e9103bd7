"""Those attacks of ``tests/escape`` that are about the supervisor, against the one in a container.

There a program is the same user as its supervisor, root, and what keeps it out is the kernel's and our filter's doing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from swe_sdk.errors import SandboxOutOfMemory
from swe_sdk.sandbox.providers.docker.box import DockerBox
from tests.escape import test_escape_commands as commands
from tests.escape import test_escape_files as files
from tests.escape import test_escape_kernel as kernel
from tests.escape import test_escape_proc as proc
from tests.escape import test_escape_resources as resources
from tests.escape import test_escape_signals as signals
from tests.escape import test_escape_supervisor as supervisor
from tests.escape.world import Guard, attack, first_process
from tests.sandbox.docker.conftest import MakeBox

pytestmark = pytest.mark.anyio

test_daemons_that_hide_whose_they_are = commands.test_daemons_that_hide_whose_they_are
test_forged_endings = commands.test_forged_endings
test_inherited_descriptors = commands.test_inherited_descriptors
test_its_own_pipes = commands.test_its_own_pipes
test_passing_for_another_command = commands.test_passing_for_another_command
test_threads_that_outlive_their_first = commands.test_threads_that_outlive_their_first
test_a_file_that_grows_as_it_is_read = files.test_a_file_that_grows_as_it_is_read
test_a_sparse_file_of_exabytes = files.test_a_sparse_file_of_exabytes
test_calls_by_other_doors = kernel.test_calls_by_other_doors
test_calls_younger_than_the_filter = kernel.test_calls_younger_than_the_filter
test_clocks = kernel.test_clocks
test_joining_other_namespaces = kernel.test_joining_other_namespaces
test_keyrings = kernel.test_keyrings
test_refused_calls = kernel.test_refused_calls
test_processes_of_another_box = proc.test_processes_of_another_box
test_a_fork_bomb_that_runs_out_of_time = resources.test_a_fork_bomb_that_runs_out_of_time
test_all_descriptors = resources.test_all_descriptors
test_memory_that_outlives_its_maker = resources.test_memory_that_outlives_its_maker
test_death_signals_of_odd_children = signals.test_death_signals_of_odd_children
test_every_signal_to_the_supervisor = signals.test_every_signal_to_the_supervisor
test_killing_what_the_supervisor_starts = signals.test_killing_what_the_supervisor_starts
test_signals_that_descriptors_send = signals.test_signals_that_descriptors_send
test_stopping_what_the_supervisor_starts = signals.test_stopping_what_the_supervisor_starts
test_a_storm_of_orphans = supervisor.test_a_storm_of_orphans
test_changing_its_limits_and_priority = supervisor.test_changing_its_limits_and_priority
test_debugging_it = supervisor.test_debugging_it
test_filling_the_process_table = supervisor.test_filling_the_process_table
test_finding_its_socket = supervisor.test_finding_its_socket
test_links_into_the_supervisors_own_proc = supervisor.test_links_into_the_supervisors_own_proc
test_taking_the_processor = supervisor.test_taking_the_processor
test_what_the_next_program_loads = supervisor.test_what_the_next_program_loads


@pytest.fixture
async def box(make_box: MakeBox) -> AsyncIterator[DockerBox]:
    """A box to attack, which afterwards must be what it was, and serve."""
    found = await make_box()
    guard = Guard(found)  # type: ignore[arg-type]  # what it asks of a box, both kinds have
    yield found
    # Root may choose whom the kernel kills first; see the tests below for what comes of that.
    Path(f"/proc/{first_process(found)}/oom_score_adj").write_text("0")  # type: ignore[arg-type]
    await guard.assert_holds()


@pytest.fixture(params=["root", "1000"])
def user(request: pytest.FixtureRequest) -> str:
    """The user of most images, who is the supervisor's own, and another."""
    return str(request.param)


MANY_SMALL = """
    if daemon():
        time.sleep(float(sys.argv[1]))
        write("/proc/1/oom_score_adj", b"1000")
        write("/proc/self/oom_score_adj", b"0")
        for number in range(200):
            if os.fork() == 0:
                kept = b"x" * 2000000
                time.sleep(60)
"""
"""Has the kernel choose the supervisor when the memory of the box is full."""


async def test_memory_filled_to_have_the_supervisor_killed_is_told_as_that(make_box: MakeBox) -> None:
    """A supervisor that its own programs have starved is their doing, whenever it is noticed, and earns no mask."""
    box = await make_box(limits={"memory_mib": 64})
    await attack(box, MANY_SMALL, "0.7")  # type: ignore[arg-type]
    result = await box.exec(["/bin/sleep", "20"], timeout_s=30)
    assert (result.status, result.exit_code) == ("oom", None)
    assert await box.status() == "lost"
    with pytest.raises(SandboxOutOfMemory):
        await box.read("/etc/hostname")


async def test_that_is_told_to_a_later_call_too(make_box: MakeBox) -> None:
    box = await make_box(limits={"memory_mib": 64})
    await attack(box, MANY_SMALL, "0.7")  # type: ignore[arg-type]
    with anyio.fail_after(20):
        while await box.status() == "running":
            await anyio.sleep(0.05)
    for _ in range(2):
        with pytest.raises(SandboxOutOfMemory):
            await box.exec(["/bin/true"])
