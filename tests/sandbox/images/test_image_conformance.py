"""The local provider keeps its promises on a container image, too: one that a real engine has pushed."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import ClassVar

from swe_sdk.sandbox.contract import SandboxProvider, SandboxSpec
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from swe_sdk.testing.provider_suite import ProviderSettings, ProviderSuite
from tests.leaks import memory_folder, traces_of
from tests.sandbox.docker.images import debian_image
from tests.sandbox.images.conftest import running_registry
from tests.sandbox.images.engine import pushed


class TestLocalOnAnImage(ProviderSuite):
    """The topics to which it matters what lies below a box."""

    select = ("environment", "exec", "files", "isolation", "lifecycle", "network", "snapshots")
    _folder: ClassVar[Path]
    _things: ClassVar[ExitStack]

    @classmethod
    def setup_class(cls) -> None:
        with ExitStack() as things:
            cls._folder = Path(tempfile.mkdtemp(prefix="swe_sdk-images-", dir=memory_folder()))
            things.callback(shutil.rmtree, cls._folder)
            live = things.enter_context(running_registry(cls._folder))
            cls.settings = ProviderSettings(spec=SandboxSpec(image=pushed(debian_image(), live.host, "debian")))
            cls._things = things.pop_all()
        super().setup_class()

    @classmethod
    def teardown_class(cls) -> None:
        super().teardown_class()
        with cls._things:
            left = traces_of(cls._folder / "state")
        assert left == {}

    def make_provider(self) -> SandboxProvider:
        return LocalProvider(self._folder / "state")
