"""What is special about boxes on images: their user, their variables, their mounts, and what they do not see."""

from __future__ import annotations

from pathlib import Path

import pytest

from swe_sdk.errors import CapabilityMissing, PrerequisiteError
from swe_sdk.sandbox.contract import Box, Mount, SandboxSpec
from swe_sdk.sandbox.providers.apptainer.provider import ApptainerProvider
from swe_sdk.sandbox.providers.apptainer.settings import ApptainerSettings
from tests.sandbox.apptainer.images import busybox_directory, busybox_sif
from tests.sandbox.boxes import output

pytestmark = pytest.mark.anyio


async def test_the_user_is_root_and_nobody_else(box: Box) -> None:
    assert await output(box, "id -u; id -g; whoami; echo $HOME; cd && pwd") == "0\n0\nroot\n/root\n/root"
    assert (await box.exec("id -u", user="root")).stdout == "0\n"
    with pytest.raises(CapabilityMissing, match="nobody") as raised:
        await box.exec("id", user="nobody")
    assert raised.value.remedy


async def test_root_changes_any_file_of_the_image_and_has_no_other_power(box: Box) -> None:
    change = "rm -r /usr/share/doc; chmod 0 /etc/shadow; cat /etc/shadow > /dev/null; echo done"
    assert await output(box, change) == "done"
    attempts = ("mount -t tmpfs none /mnt", "mknod /disk b 8 0", "echo 1 > /proc/sys/kernel/panic", "unshare -U id")
    for refused in attempts:
        assert not (await box.exec(refused)).ok, refused
    effective = int((await output(box, "grep CapEff /proc/self/status")).split()[1], 16)
    assert effective in (0, 0b1010), "but for files: CAP_DAC_OVERRIDE and CAP_FOWNER"


async def test_nothing_of_the_container_or_the_machine_is_seen(provider: ApptainerProvider, box: Box) -> None:
    mounts = await output(box, "cat /proc/self/mountinfo")
    for hidden in ("fuse", "session", "/mnt", "vfat", "sysfs", "cgroup"):
        assert hidden not in mounts
    assert await output(box, "ls -A /mnt /sys") == "/mnt:\n\n/sys:"
    others = await output(box, "ps -e -o pid=,comm= | grep -vE '^ *1 | (ps|grep|bash)$'; true")
    assert others == "", "but for its supervisor"
    assert "APPTAINER" not in await output(box, "env; cat /proc/1/environ 2> /dev/null; true")


async def test_variables_of_this_process_do_not_reach_an_image(
    apptainer_state: Path, options: ApptainerSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("APPTAINERENV_SECRET", "SINGULARITYENV_SECRET", "SECRET"):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("APPTAINER_BIND", "/etc/passwd:/etc/other")
    provider = ApptainerProvider(apptainer_state / "secrets", options=options)
    box = await provider.create(SandboxSpec(workdir="/"))
    assert "secret" not in (await output(box, "env")).lower()
    assert not (await box.exec("test -e /etc/other")).ok
    await provider.aclose()


async def test_mounts_have_places_wherever_they_are_wanted(provider: ApptainerProvider, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d/file").write_text("from here")
    targets = ("/etc/d", "/no/such/place", "/usr/bin/d", "/home/worker/file")
    sources = (tmp_path / "d", tmp_path / "d", tmp_path / "d", tmp_path / "d/file")
    mounts = tuple(Mount(source=str(source), target=target) for source, target in zip(sources, targets, strict=True))
    for image in (None, str(busybox_directory(tmp_path / "root"))):
        box = await provider.create(SandboxSpec(image=image, workdir="/", mounts=mounts))
        assert (
            await output(box, "cat /etc/d/file /no/such/place/file /usr/bin/d/file /home/worker/file")
            == "from here" * 4
        )
        assert not (await box.exec("echo x > /etc/d/new")).ok
        await box.close()


async def test_a_box_with_the_network_of_the_machine_finds_names_as_the_machine_does(
    provider: ApptainerProvider,
) -> None:
    box = await provider.create(SandboxSpec(workdir="/", network="host"))
    assert (await output(box, "cat /etc/resolv.conf")) == Path("/etc/resolv.conf").read_text().strip()
    assert (await output(box, "cat /etc/hosts")) == Path("/etc/hosts").read_text().strip()


async def test_a_shell_is_found_where_there_is_no_bash(provider: ApptainerProvider, box: Box) -> None:
    small = await provider.create(SandboxSpec(image=str(busybox_sif()), workdir="/"))
    assert await output(small, 'echo "${BASH_VERSION:-none}"') == "none"
    assert await output(box, 'echo "${BASH_VERSION:+bash}"') == "bash"


async def test_boxes_of_several_images_live_side_by_side(provider: ApptainerProvider, box: Box) -> None:
    small = await provider.create(SandboxSpec(image=str(busybox_sif()), workdir="/"))
    await output(small, "echo small > made")
    snapshot = await provider.snapshot(small)
    assert snapshot.provider == "apptainer"
    fork = await provider.create(SandboxSpec(snapshot=snapshot.id, workdir="/"))
    assert await output(fork, "cat made; busybox | head -c 7") == "small\nBusyBox"
    assert await output(box, "ls /made 2> /dev/null; cat /etc/os-release | head -c 6") == "PRETTY"
    await provider.delete_snapshot(snapshot.id)
    assert await output(fork, "cat made") == "small"


async def test_a_box_without_an_image_says_what_to_do(apptainer_state: Path, options: ApptainerSettings) -> None:
    provider = ApptainerProvider(apptainer_state / "bare", options=options.model_copy(update={"base_image": None}))
    with pytest.raises(PrerequisiteError) as raised:
        await provider.create(SandboxSpec())
    assert "SWE_SDK_BASE_IMAGE" in raised.value.remedy
    await provider.aclose()
