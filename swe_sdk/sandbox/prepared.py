"""An environment that is ready on one provider."""

from __future__ import annotations

from pydantic import Field

from swe_sdk.model.environment import WORKDIR
from swe_sdk.model.record import Record
from swe_sdk.sandbox.contract import Mount, SandboxSpec

HEAD = "HEAD"


class PreparedEnvironment(Record):
    """What :func:`swe_sdk.sandbox.environments.prepare` returns: make boxes from :meth:`spec`."""

    key: str
    """Content key of everything that went into it."""
    snapshot: str | None = None
    image: str | None = None
    workdir: str = WORKDIR
    env: dict[str, str] = Field(default_factory=dict)
    """PATH with the virtual environment first, and the task's own variables."""
    mounts: tuple[Mount, ...] = ()
    base_commit: str = HEAD
    """The commit in the box's repository that patches are taken and applied against.

    ``HEAD`` is an image's until a box is there in which it can be looked up; see :mod:`swe_sdk.sandbox.base`.
    """
    reset_to: str | None = None
    """The commit to which an image's repository must be reset first."""
    build_s: float = 0.0
    """Seconds that building took; 0 where it was found ready."""

    @property
    def base_is_open(self) -> bool:
        """Whether the base commit can be looked up, and has not been."""
        return self.image is not None and self.base_commit == HEAD

    def spec(self) -> SandboxSpec:
        """A sandbox of this environment, without a network."""
        return SandboxSpec(
            image=self.image, snapshot=self.snapshot, workdir=self.workdir, env=self.env, mounts=self.mounts
        )
