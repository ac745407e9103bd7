"""The Apptainer provider keeps every promise of the sandbox contract, one test item a check."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import ClassVar

from swe_sdk.sandbox.contract import SandboxProvider, SandboxSpec
from swe_sdk.sandbox.providers.apptainer.provider import ApptainerProvider
from swe_sdk.sandbox.providers.apptainer.settings import ApptainerSettings
from swe_sdk.testing.provider_suite import ProviderSettings, ProviderSuite
from tests.leaks import memory_folder
from tests.sandbox.apptainer.images import apptainer, busybox_sif, debian_sif


class _OnApptainer(ProviderSuite):
    folder: ClassVar[Path]

    @classmethod
    def setup_class(cls) -> None:
        cls.settings = ProviderSettings(spec=SandboxSpec(image=str(cls.image())))
        cls.folder = Path(tempfile.mkdtemp(prefix="swe_sdk-apptainer-", dir=memory_folder()))
        super().setup_class()

    @classmethod
    def teardown_class(cls) -> None:
        super().teardown_class()
        shutil.rmtree(cls.folder)

    @classmethod
    def image(cls) -> Path:
        raise NotImplementedError

    def make_provider(self) -> SandboxProvider:
        # one attempt: a check asks for an image that no registry has
        return ApptainerProvider(self.folder, options=ApptainerSettings(program=apptainer(), build_attempts=1))


class TestApptainer(_OnApptainer):
    """On an image like those of most tasks."""

    @classmethod
    def image(cls) -> Path:
        return debian_sif()


class TestApptainerWithoutPython(_OnApptainer):
    """On an image with neither Python nor a C library, with files that are not root's."""

    select = ("exec", "environment", "files", "pause")

    @classmethod
    def image(cls) -> Path:
        return busybox_sif()


del _OnApptainer  # or pytest would collect it
