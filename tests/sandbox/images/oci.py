"""Container images made by hand, and pushed to a registry by its API."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import subprocess
import tarfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urljoin

import requests

from swe_sdk.sandbox.images.manifest import own_platform

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
DOCKER_CONFIG = "application/vnd.docker.container.image.v1+json"
DOCKER_LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def entry(
    name: str, content: bytes | None = None, kind: bytes | None = None, **fields: Any
) -> tuple[tarfile.TarInfo, bytes]:
    """One entry of a layer: a file if it has a ``content``, else a directory, else what ``kind`` says."""
    info = tarfile.TarInfo(name)
    info.type = kind or (tarfile.DIRTYPE if content is None else tarfile.REGTYPE)
    info.mode = 0o755 if info.type == tarfile.DIRTYPE else 0o644
    info.mtime = 1_600_000_000
    info.size = len(content or b"")
    for attribute, value in fields.items():
        setattr(info, attribute, value)
    return info, content or b""


def link(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    return entry(name, kind=tarfile.SYMTYPE, linkname=target)


def hard_link(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    return entry(name, kind=tarfile.LNKTYPE, linkname=target)


def layer(*entries: tuple[tarfile.TarInfo, bytes], form: int = tarfile.PAX_FORMAT) -> bytes:
    """A tar archive."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form, encoding="utf-8", errors="surrogateescape") as tar:
        for info, content in entries:
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def zstd(data: bytes) -> bytes:
    return subprocess.run(["zstd", "-qc"], input=data, stdout=subprocess.PIPE, check=True).stdout


PACKINGS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "": ("", bytes),
    "gzip": ("+gzip", lambda data: gzip.compress(data, 1, mtime=0)),
    "zstd": ("+zstd", zstd),
}


@dataclass
class MadeImage:
    """What is pushed: blobs, and manifests by tag or digest."""

    layers: Iterable[bytes]
    settings: dict[str, Any] = field(default_factory=dict)
    packing: str = "gzip"
    docker: bool = False
    platform: tuple[str, str] = field(default_factory=own_platform)

    def parts(self) -> tuple[list[bytes], bytes, str]:
        """The blobs, the manifest and its media type."""
        layers = list(self.layers)
        suffix, pack = PACKINGS[self.packing]
        packed = [pack(each) for each in layers]
        os, architecture = self.platform
        config = json.dumps({
            "os": os, "architecture": architecture, "config": self.settings,
            "rootfs": {"type": "layers", "diff_ids": [digest_of(each) for each in layers]},
        }).encode()  # fmt: skip
        manifest = {
            "schemaVersion": 2,
            "mediaType": DOCKER_MANIFEST if self.docker else MANIFEST,
            "config": described(config, DOCKER_CONFIG if self.docker else CONFIG),
            "layers": [described(blob, DOCKER_LAYER if self.docker else LAYER + suffix) for blob in packed],
        }
        return [config, *packed], json.dumps(manifest).encode(), str(manifest["mediaType"])


def described(data: bytes, media_type: str, **more: Any) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": digest_of(data), "size": len(data), **more}


@dataclass(frozen=True)
class LiveRegistry:
    """A registry that runs."""

    host: str
    auth: tuple[str, str] | None = None

    def push(self, name: str, image: MadeImage, tag: str = "latest") -> str:
        """Push it; returns the whole name."""
        blobs, manifest, media_type = image.parts()
        for blob in blobs:
            self.push_blob(name, blob)
        self.push_manifest(name, tag, manifest, media_type)
        return f"{self.host}/{name}:{tag}"

    def push_blob(self, name: str, data: bytes) -> None:
        begun = requests.post(f"http://{self.host}/v2/{name}/blobs/uploads/", auth=self.auth, timeout=30)
        begun.raise_for_status()
        where = urljoin(begun.url, begun.headers["Location"])
        done = requests.put(where, params={"digest": digest_of(data)}, data=data, auth=self.auth, timeout=60)
        done.raise_for_status()

    def push_manifest(self, name: str, reference: str, data: bytes, media_type: str) -> None:
        done = requests.put(
            f"http://{self.host}/v2/{name}/manifests/{reference}",
            data=data, headers={"Content-Type": media_type}, auth=self.auth, timeout=30,
        )  # fmt: skip
        assert done.ok, done.text

    def push_list(self, name: str, images: list[MadeImage], tag: str = "latest", *, docker: bool = False) -> str:
        """Push several images for several platforms as one."""
        entries = []
        for image in images:
            blobs, manifest, media_type = image.parts()
            for blob in blobs:
                self.push_blob(name, blob)
            self.push_manifest(name, digest_of(manifest), manifest, media_type)
            os, architecture = image.platform
            platform = {"os": os, "architecture": architecture}
            entries.append(described(manifest, media_type, platform=platform))
        media_type = DOCKER_LIST if docker else INDEX
        index = json.dumps({"schemaVersion": 2, "mediaType": media_type, "manifests": entries}).encode()
        self.push_manifest(name, tag, index, media_type)
        return f"{self.host}/{name}:{tag}"


TOOLS = (  # noqa: SIM905
    "cat chmod cp echo env find head id ln ls mkdir mv pwd readlink rm sh sleep sort stat test touch true wc whoami"
).split()


def system(busybox: bytes, *more: tuple[tarfile.TarInfo, bytes]) -> bytes:
    """A layer with all that a box needs."""
    return layer(
        entry("./"),
        entry("bin/"),
        entry("bin/busybox", busybox, mode=0o755),
        *(link(f"bin/{tool}", "busybox") for tool in TOOLS),
        entry("tmp/", mode=0o1777),
        entry("etc/"),
        entry("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n"),
        entry("etc/group", b"root:x:0:"),
        *more,
    )
