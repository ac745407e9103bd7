"""Providers by name are one object for the whole process, and follow the environment variables."""

from __future__ import annotations

from pathlib import Path

import pytest

from swe_sdk.errors import UnknownProvider
from swe_sdk.sandbox.providers.docker.provider import DockerProvider
from swe_sdk.sandbox.registry import named_provider


def test_a_name_is_one_provider_until_a_setting_changes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SWE_SDK_STATE", str(tmp_path))
    monkeypatch.delenv("SWE_SDK_BASE_IMAGE", raising=False)
    bare = named_provider("docker")
    assert named_provider("docker") is bare
    monkeypatch.setenv("SWE_SDK_BASE_IMAGE", "tools:1")
    furnished = named_provider("docker")
    assert isinstance(bare, DockerProvider)
    assert isinstance(furnished, DockerProvider)
    assert (bare.base_image, furnished.base_image) == (None, "tools:1")
    monkeypatch.setenv("UNRELATED", "1")
    assert named_provider("docker") is furnished
    monkeypatch.delenv("SWE_SDK_BASE_IMAGE")
    assert named_provider("docker") is bare


def test_a_name_that_nobody_has_is_refused() -> None:
    with pytest.raises(UnknownProvider, match="dokcer"):
        named_provider("dokcer")
