"""Names of images, with the defaults that Docker gives them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from swe_sdk.errors import InputError

DOCKER_HUB = "docker.io"
_HUB_NAMES = (DOCKER_HUB, "index.docker.io", "registry-1.docker.io")
_HUB_HOST = "registry-1.docker.io"
_LONGEST_NAME = 255

# the grammar of github.com/distribution/reference
_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REPOSITORY = re.compile(rf"{_COMPONENT}(?:/{_COMPONENT})*")
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_REGISTRY = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[0-9a-fA-F:]+\])(?::[0-9]+)?")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}")


@dataclass(frozen=True)
class ImageReference:
    """An image by name; written out in full by ``str``."""

    registry: str
    repository: str
    tag: str | None = None
    digest: str | None = None
    """Where it is given it decides, and the tag says nothing."""

    @property
    def version(self) -> str:
        """What a registry is asked for: the digest, or else the tag."""
        return self.digest or self.tag or "latest"

    @property
    def host(self) -> str:
        """Where the registry answers."""
        return _HUB_HOST if self.registry == DOCKER_HUB else self.registry

    def through(self, mirror: str | None) -> ImageReference:
        """Where the image is pulled from, if ``mirror`` (``host[:port][/path]``) stands for Docker Hub."""
        if mirror is None or self.registry != DOCKER_HUB:
            return self
        registry, _, path = mirror.strip("/").partition("/")
        if not _REGISTRY.fullmatch(registry) or (path and not _REPOSITORY.fullmatch(path)):
            raise InputError(f"{mirror!r} names no registry", remedy='write "host:port" or "host:port/path"')
        repository = f"{path}/{self.repository}" if path else self.repository
        return replace(self, registry=registry, repository=repository)

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.registry}/{self.repository}{tag}{f'@{self.digest}' if self.digest else ''}"


def parse_reference(text: str) -> ImageReference:
    """``[registry/]name[:tag][@digest]``: Docker Hub, ``library/`` and ``latest`` where nothing is said.

    Raises ``InputError`` where it is no such name.
    """
    name, _, digest = text.strip().removeprefix("docker://").partition("@")
    registry, path = _split_registry(name)
    path, colon, tag = path.partition(":")
    if registry == DOCKER_HUB and "/" not in path:
        path = f"library/{path}"
    if "@" in text and not _DIGEST.fullmatch(digest):
        raise _malformed(text, f"{digest!r} is no digest")
    if colon and not _TAG.fullmatch(tag):
        raise _malformed(text, f"{tag!r} is no tag")
    if not _REGISTRY.fullmatch(registry):
        raise _malformed(text, f"{registry!r} is no registry")
    if not _REPOSITORY.fullmatch(path) or len(path) > _LONGEST_NAME:
        raise _malformed(text, "a name has small letters, digits, and single separators between them")
    return ImageReference(registry, path, tag or (None if digest else "latest"), digest or None)


def _split_registry(name: str) -> tuple[str, str]:
    """The first part is a registry if no name of Docker Hub could begin like that."""
    first, slash, rest = name.partition("/")
    if slash and (first == "localhost" or first != first.lower() or any(mark in first for mark in ".:[")):
        return (DOCKER_HUB if first in _HUB_NAMES else first), rest
    return DOCKER_HUB, name


def _malformed(text: str, why: str) -> InputError:
    return InputError(f"{text!r} is no image name: {why}", remedy="write [registry/]name[:tag][@sha256:...]")
