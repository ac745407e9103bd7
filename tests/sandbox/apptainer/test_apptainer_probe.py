"""Where Apptainer does not serve, the health report says why and what to do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from swe_sdk.sandbox.contract import Limits, ProviderHealth
from swe_sdk.sandbox.providers.apptainer.diagnosis import explain_start
from swe_sdk.sandbox.providers.apptainer.provider import ApptainerProvider
from swe_sdk.sandbox.providers.apptainer.settings import ApptainerSettings
from tests.sandbox.apptainer.images import apptainer

pytestmark = pytest.mark.anyio
_VERSION = "[ $1 = --version ] && { echo apptainer version 1.4.5; exit; }"


async def report(state: Path, program: str | None) -> ProviderHealth:
    provider = ApptainerProvider(state, options=ApptainerSettings(program=program))
    health = await provider.probe()
    await provider.aclose()
    return health


def program(path: Path, script: str) -> str:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


async def test_it_works_here_and_the_report_says_how(provider: ApptainerProvider) -> None:
    health = await provider.probe()
    assert health.works, health
    assert health.details["apptainer"].startswith("1.")
    assert set(health.limits) == set(Limits.model_fields)
    assert await provider.probe() is health, "a success is remembered"


async def test_no_image_and_no_setting_is_needed_to_know_that_it_works(apptainer_state: Path) -> None:
    health = await report(apptainer_state / "bare", apptainer())
    assert health.works, health
    assert health.details["base image"] == "none"


async def test_an_absent_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    health = await report(tmp_path / "state", None)
    assert (health.works, "no program 'apptainer'" in health.reason) == (False, True)
    assert "SWE_SDK_APPTAINER" in health.remedy
    program(tmp_path / "singularity", "true")
    health = await report(tmp_path / "state", None)
    assert "singularity" in health.reason
    assert "apptainer" in health.remedy


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo apptainer version 1.0.3", "too old"),
        ("echo singularity-ce version 4.1.0", "is no apptainer"),
        ("exit 3", "does not run"),
        (f"{_VERSION}; exec sleep 600", "did not mount"),
        (f"{_VERSION}; echo something else", "says b'something else"),
        (f"{_VERSION}; exit 255", "it said nothing"),
    ],
)
async def test_a_program_that_does_not_serve(tmp_path: Path, script: str, reason: str) -> None:
    named = program(tmp_path / "apptainer", script)
    provider = ApptainerProvider(tmp_path / "state", options=ApptainerSettings(program=named, start_timeout_s=0.5))
    health = await provider.probe()
    await provider.aclose()
    assert not health.works
    assert reason in health.reason


_WITHOUT_NAMESPACES = """
import json, sys, anyio
from swe_sdk.sandbox.providers.apptainer.provider import ApptainerProvider
from swe_sdk.sandbox.providers.apptainer.settings import ApptainerSettings
async def main():
    provider = ApptainerProvider(sys.argv[1], options=ApptainerSettings(program=sys.argv[2]))
    print((await provider.probe()).model_dump_json())
    await provider.aclose()
anyio.run(main)
"""


async def test_a_machine_without_user_namespaces(tmp_path: Path) -> None:
    """The real Apptainer, where the kernel refuses it one: within a namespace that allows no further ones."""
    forbid = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'
    command = [sys.executable, "-c", _WITHOUT_NAMESPACES, str(tmp_path / "state"), apptainer()]
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "sh", "-c", forbid, "sh", *command], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    health = ProviderHealth.model_validate(json.loads(done.stdout.splitlines()[-1]))
    assert not health.works
    assert "namespace" in health.reason
    assert "max_user_namespaces" in health.remedy


@pytest.mark.skipif(os.geteuid() != 0, reason="it takes root to mount one")
async def test_a_state_directory_on_which_no_layer_can_be_written(tmp_path: Path) -> None:
    """An overlay cannot write to another one, nor to a network file system."""
    for name in ("lower", "upper", "work", "merged"):
        (tmp_path / name).mkdir()
    options = f"lowerdir={tmp_path}/lower,upperdir={tmp_path}/upper,workdir={tmp_path}/work"
    mounted = subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, tmp_path / "merged"])
    if mounted.returncode != 0:
        pytest.skip("an overlay cannot be mounted here")
    try:
        health = await report(tmp_path / "merged", apptainer())
    finally:
        subprocess.run(["umount", tmp_path / "merged"], check=True)
    assert not health.works
    assert "overlay" in health.reason
    assert "SWE_SDK_STATE" in health.remedy


@pytest.mark.parametrize(
    ("said", "kind", "remedy"),
    [
        ("FATAL:   container creation failed: unshare(CLONE_NEWUSER): no space left on device", "NoSpace", "disk"),
        (
            "ERROR  : Failed to create user namespace: not allowed to create user namespace",
            "ProviderUnavailable",
            "sysctl",
        ),
        ('Error for command "exec": unknown flag: --ignore-subuid', "ProviderUnavailable", "1.1"),
        ("FATAL: while extracting image: squashfuse_ll not found", "ProviderUnavailable", "squashfuse"),
        ("FATAL: could not open image /x.sif: image format not recognized", "CreateFailed", "inspect"),
        (
            "FATAL: stat /mnt/runtimes/1f/loader.so: no such file or directory",
            "ProviderUnavailable",
            "bind control",
        ),
        ("FATAL: configuration disallows users from running unencrypted SIF", "ProviderUnavailable", "--sandbox"),
        ("", "CreateFailed", ""),
    ],
)
def test_what_apptainer_says_becomes_an_error_with_a_remedy(said: str, kind: str, remedy: str) -> None:
    error = explain_start(Path("/x.sif"), f"INFO: something else\n{said}\n")
    assert type(error).__name__ == kind
    assert remedy in error.remedy
