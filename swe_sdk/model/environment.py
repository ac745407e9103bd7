"""How a sandbox is made: from a container image, or from sources by build steps."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from swe_sdk.model.record import Record

WORKDIR = "/testbed"
"""Where the official harness keeps the repository."""


def check_variables(env: dict[str, str]) -> dict[str, str]:
    """Environment variables as they are; ``ValueError`` where no program could get them."""
    names = "".join(env)  # one look at all of them: every command of a sandbox comes by here
    if "" in env or "=" in names or "\0" in names or "\0" in "".join(env.values()):
        raise ValueError("a variable's name must be non-empty and free of '=', and neither part may hold a NUL")
    return env


Variables = Annotated[dict[str, str], AfterValidator(check_variables)]
"""Environment variables by name."""


class GitSource(Record):
    """A git repository at a commit; ``url`` is a URL or a path on this machine."""

    kind: Literal["git"] = "git"
    url: str
    commit: str


class SdistSource(Record):
    """A source distribution from the package index, pinned by its sha256."""

    kind: Literal["sdist"] = "sdist"
    name: str
    version: str
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    filename: str | None = None


class DirectorySource(Record):
    """A directory on this machine, without version control, caches, ``.venv`` and ``node_modules``."""

    kind: Literal["directory"] = "directory"
    path: str


Source = Annotated[GitSource | SdistSource | DirectorySource, Field(discriminator="kind")]


class SourceEnvironment(Record):
    """Sources plus build steps: built once with the network on, frozen, and forked for every sandbox."""

    kind: Literal["source"] = "source"
    source: Source
    python: str | None = None
    """A version ("3.9") or a specifier (">=3.9"); None = no virtual environment."""
    pip: tuple[str, ...] = ()
    """The complete pinned requirements, installed without resolving dependencies."""
    pre_install: tuple[str, ...] = ()
    install: tuple[str, ...] = ()
    """Shell commands, run in ``workdir`` with the virtual environment active."""
    env: Variables = Field(default_factory=dict)
    """Set in the build and in every sandbox of this environment."""
    tools: tuple[str, ...] = ()
    """Programs that must be there beside Python, such as "node"."""
    workdir: str = WORKDIR


class ImageEnvironment(Record):
    """A container image (``name:tag``) or a .sif file that already holds the repository at ``workdir``."""

    kind: Literal["image"] = "image"
    image: str
    env: Variables = Field(default_factory=dict)
    workdir: str = WORKDIR
    base: str | None = None
    """The commit to which the repository is reset before anybody gets in; None = what the image has checked out."""
    hidden: tuple[str, ...] = ()
    """Paths of the image that hold hidden tests: removed from the boxes of agents, never from those that grade."""


Environment = Annotated[SourceEnvironment | ImageEnvironment, Field(discriminator="kind")]
