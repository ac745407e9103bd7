"""What an image consists of: from a name in a registry to layers and settings.

Read are the image manifests of OCI (github.com/opencontainers/image-spec) and of Docker (schema 2), and lists of them
for several platforms.
"""

from __future__ import annotations

import hashlib
import platform as this_platform
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from swe_sdk.errors import CreateFailed, ImageNotFound, PullFailed
from swe_sdk.model.record import Record
from swe_sdk.sandbox.images.reference import ImageReference
from swe_sdk.sandbox.images.registry import Registry

_OCI = "application/vnd.oci.image."
_DOCKER = "application/vnd.docker.distribution."
_LISTS = (f"{_OCI}index.v1+json", f"{_DOCKER}manifest.list.v2+json")
_MANIFESTS = (f"{_OCI}manifest.v1+json", f"{_DOCKER}manifest.v2+json")
_LAYERS = (f"{_OCI}layer.", "application/vnd.docker.image.rootfs.")
_PACKINGS = ("", "gzip", "zstd")
_MANIFEST_BYTES = 4 << 20
_CONFIG_BYTES = 8 << 20
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}
_DIGEST = r"^(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$"


_M = TypeVar("_M", bound=BaseModel)


class Layer(Record):
    """One layer: a tar archive, packed or not."""

    digest: str
    """Of the blob, as it is fetched."""
    size: int
    """Of the blob, in bytes."""
    diff_id: str = Field(pattern=_DIGEST)
    """Digest of the unpacked archive: the layer's identity, however it was packed."""


class Image(Record):
    """An image for this machine's platform, as its registry describes it."""

    digest: str
    """Of its manifest."""
    layers: tuple[Layer, ...]
    """From the lowest up."""
    env: dict[str, str] = Field(default_factory=dict)
    workdir: str = ""
    user: str = ""
    entrypoint: tuple[str, ...] = ()


def resolve(registry: Registry, reference: ImageReference) -> Image:
    """The image that ``reference`` names, for this machine.

    Raises ``ImageNotFound``, ``PullFailed``, or ``CreateFailed`` where it is of a kind that cannot be used.
    """
    manifest, digest = _manifest(registry, reference)
    config = _parse(_Config, _checked(registry, manifest.config, _CONFIG_BYTES), f"the config of {reference}")
    platform = own_platform()
    if (config.os, config.architecture) != platform:
        raise ImageNotFound(
            f"the image {reference} is for {config.os}/{config.architecture}, and this machine is {'/'.join(platform)}"
        )
    diff_ids = config.rootfs.diff_ids
    if len(diff_ids) != len(manifest.layers) or not diff_ids:
        raise CreateFailed(f"{reference} has {len(manifest.layers)} layers, and its config names {len(diff_ids)}")
    layers = tuple(_layer(entry, diff_id) for entry, diff_id in zip(manifest.layers, diff_ids, strict=True))
    settings = config.config or _Settings()
    return Image(
        digest=digest,
        layers=layers,
        env=dict(line.split("=", 1) for line in settings.Env or () if line.find("=") > 0 and "\0" not in line),
        workdir=settings.WorkingDir or "",
        user=settings.User or "",
        entrypoint=tuple(settings.Entrypoint or ()),
    )


def own_platform() -> tuple[str, str]:
    """Operating system and architecture of this machine, as registries call them."""
    machine = this_platform.machine()
    return "linux", _MACHINES.get(machine, machine)


def choose(entries: list[Descriptor], reference: ImageReference) -> Descriptor:
    """The entry of a list that is for this machine; of several the first one, as Docker does."""
    own = own_platform()
    named = [(entry, (entry.platform.os, entry.platform.architecture)) for entry in entries if entry.platform]
    for entry, platform in named:
        if platform == own:
            return entry
    known = sorted({"/".join(platform) for _entry, platform in named if platform[0] != "unknown"})
    raise ImageNotFound(f"{reference} is there for {', '.join(known) or 'no platform'}, and not for {'/'.join(own)}")


class _Read(BaseModel):
    """Part of what a registry sends; it may hold more."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class _Platform(_Read):
    os: str = ""
    architecture: str = ""


class Descriptor(_Read):
    """What a manifest says of something else: what it is, and how to get it."""

    mediaType: str = ""
    digest: str = Field(pattern=_DIGEST)
    size: int = Field(ge=0)
    platform: _Platform | None = None


class _List(_Read):
    manifests: list[Descriptor]


class _Manifest(_Read):
    config: Descriptor
    layers: list[Descriptor]


class _RootFs(_Read):
    diff_ids: list[Annotated[str, Field(pattern=_DIGEST)]] = Field(default_factory=list)


class _Settings(_Read):
    Env: list[str] | None = None
    WorkingDir: str | None = None
    User: str | None = None
    Entrypoint: list[str] | None = None


class _Config(_Read):
    os: str = ""
    architecture: str = ""
    rootfs: _RootFs
    config: _Settings | None = None


def _manifest(registry: Registry, reference: ImageReference) -> tuple[_Manifest, str]:
    """The manifest for this platform, and its digest."""
    data, media_type = registry.read(f"manifests/{reference.version}", (*_MANIFESTS, *_LISTS), _MANIFEST_BYTES)
    digest = _require_digest(data, reference.digest, str(reference))
    if _kind(data, media_type) == "list":
        chosen = choose(_parse(_List, data, str(reference)).manifests, reference)
        data, media_type = registry.read(f"manifests/{chosen.digest}", _MANIFESTS, _MANIFEST_BYTES)
        digest = _require_digest(data, chosen.digest, str(reference))
    if _kind(data, media_type) != "manifest":
        raise CreateFailed(
            f"{reference} has a manifest of a kind that cannot be used ({media_type or 'none is named'})",
            remedy="build and push it anew: Docker's schema 1 and lists of lists are not read",
        )
    return _parse(_Manifest, data, str(reference)), digest


class _Kind(_Read):
    schemaVersion: int = 0
    mediaType: str = ""
    manifests: list[Any] | None = None
    layers: list[Any] | None = None


def _kind(data: bytes, media_type: str) -> str:
    """list, manifest or other: by its own word, else by the registry's, else by what it holds."""
    found = _parse(_Kind, data, "a manifest")
    said = found.mediaType or media_type
    if found.schemaVersion != 2:
        return "other"
    if said in _LISTS or (said not in _MANIFESTS and found.manifests is not None):
        return "list"
    return "manifest" if said in _MANIFESTS or found.layers is not None else "other"


def _layer(entry: Descriptor, diff_id: str) -> Layer:
    kind = entry.mediaType
    packing = kind.rpartition("tar")[2].lstrip("+.")
    if kind and (not kind.startswith(_LAYERS) or packing not in _PACKINGS):
        raise CreateFailed(f"a layer of the image is no tar archive, or packed otherwise than by gzip or zstd ({kind})")
    return Layer(digest=entry.digest, size=entry.size, diff_id=diff_id)


def _checked(registry: Registry, entry: Descriptor, limit_bytes: int) -> bytes:
    data, _media_type = registry.read(f"blobs/{entry.digest}", ("*/*",), limit_bytes)
    _require_digest(data, entry.digest, entry.digest)
    return data


def _require_digest(data: bytes, wanted: str | None, what: str) -> str:
    algorithm = (wanted or "sha256").partition(":")[0]
    found = f"{algorithm}:{hashlib.new(algorithm, data).hexdigest()}"
    if wanted not in (None, found):
        raise PullFailed(f"the registry sent something else for {what}: its digest is {found}, not {wanted}")
    return found


def _parse(model: type[_M], data: bytes, what: str) -> _M:
    try:
        return model.model_validate_json(data)
    except ValidationError as error:
        raise PullFailed(f"the registry sent no sound description of {what}: {error.errors()[0]['msg']}") from None
