"""The Docker provider keeps every promise of the sandbox contract, one test item a check."""

from __future__ import annotations

from swe_sdk.sandbox.contract import SandboxProvider, SandboxSpec
from swe_sdk.sandbox.providers.docker.provider import DockerProvider
from swe_sdk.testing.provider_suite import ProviderSettings, ProviderSuite
from tests.sandbox.docker.images import busybox_image, debian_image


class TestDocker(ProviderSuite):
    """On an image like those of most tasks."""

    @classmethod
    def setup_class(cls) -> None:
        cls.settings = ProviderSettings(spec=SandboxSpec(image=debian_image()), parallel_boxes=12)
        super().setup_class()

    def make_provider(self) -> SandboxProvider:
        return DockerProvider()


class TestDockerWithoutPython(ProviderSuite):
    """On an image with neither Python nor a C library, whose user is not root."""

    select = ("exec", "environment", "pause", "files")

    @classmethod
    def setup_class(cls) -> None:
        cls.settings = ProviderSettings(spec=SandboxSpec(image=busybox_image()))
        super().setup_class()

    def make_provider(self) -> SandboxProvider:
        return DockerProvider()
