"""Those attacks of ``tests/escape`` that root might win, against boxes on an image that Apptainer has mounted.

There programs are root in the box, and outside of it whoever runs the SDK: here root itself.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from swe_sdk.sandbox.contract import SandboxSpec
from swe_sdk.sandbox.providers.apptainer.provider import ApptainerProvider
from swe_sdk.sandbox.providers.local.box import LocalBox
from tests.escape import test_escape_commands as commands
from tests.escape import test_escape_kernel as kernel
from tests.escape import test_escape_layers as layers
from tests.escape import test_escape_mounts as mounts
from tests.escape import test_escape_proc as proc
from tests.escape import test_escape_signals as signals
from tests.escape import test_escape_supervisor as supervisor
from tests.escape.world import Guard

pytestmark = pytest.mark.anyio
MakeBox = Callable[..., Awaitable[LocalBox]]

test_new_mounts = mounts.test_new_mounts
test_unmounting_masks_and_binds = mounts.test_unmounting_masks_and_binds
test_the_newer_mount_calls = mounts.test_the_newer_mount_calls
test_settings_of_the_kernel = proc.test_settings_of_the_kernel
test_secrets_of_the_kernel = proc.test_secrets_of_the_kernel
test_magic_keys_and_other_switches = proc.test_magic_keys_and_other_switches
test_joining_other_namespaces = kernel.test_joining_other_namespaces
test_keyrings = kernel.test_keyrings
test_control_groups_and_sysfs = kernel.test_control_groups_and_sysfs
test_device_nodes = layers.test_device_nodes
test_every_signal_to_the_supervisor = signals.test_every_signal_to_the_supervisor
test_debugging_it = supervisor.test_debugging_it
test_finding_its_socket = supervisor.test_finding_its_socket
test_forged_endings = commands.test_forged_endings


@pytest.fixture
async def make_box(provider: ApptainerProvider) -> AsyncIterator[MakeBox]:
    """Boxes, closed at the end of the test."""
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
async def box(make_box: MakeBox) -> AsyncIterator[LocalBox]:
    """A box to attack, which afterwards must be what it was, and serve."""
    found = await make_box()
    guard = Guard(found)
    yield found
    await guard.assert_holds()


@pytest.fixture
def user() -> str:
    """The one that such boxes have."""
    return "root"
