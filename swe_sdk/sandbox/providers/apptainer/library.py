"""From the name of an image to a .sif file or directory on this machine: found, or pulled once and kept."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from anyio import to_thread

from swe_sdk.errors import CreateFailed, ImageNotFound
from swe_sdk.model.ids import content_key
from swe_sdk.sandbox.images.reference import parse_reference
from swe_sdk.sandbox.locks import file_lock
from swe_sdk.sandbox.providers.apptainer import naming
from swe_sdk.sandbox.providers.apptainer.building import URI, Builder
from swe_sdk.sandbox.providers.apptainer.sif import belongs_to_root


@dataclass(frozen=True)
class Image:
    """An image that Apptainer can mount."""

    path: Path
    """A .sif file, or a directory."""
    key: str
    """Changes whenever the file does."""

    @classmethod
    def at(cls, path: Path) -> Image:
        """The image at a path; ``OSError`` where there is none."""
        real = path.resolve()
        info = real.stat()
        version = [info.st_size, info.st_mtime_ns] if real.is_file() else []
        return cls(real, content_key([str(real), info.st_ino, *version])[:24])


class ImageLibrary:
    """Images by name. What was pulled is kept in ``directory``, which any number of processes may share."""

    def __init__(self, directory: Path, builder: Builder, image_dirs: tuple[str, ...], mirror: str | None) -> None:
        self._directory = directory
        self._builder = builder
        self._image_dirs = image_dirs
        self._mirror = mirror

    async def find(self, name: str, *, refresh: bool = False) -> Image:
        """The image of that name: a path, a URI of Apptainer's, the name of a .sif file or of an image of a registry.

        With ``refresh`` what was pulled is pulled again. ``InputError``, ``ImageNotFound``, ``PullFailed``,
        ``CreateFailed`` or ``NoSpace``.
        """
        path = None if URI.match(name) else await to_thread.run_sync(self._on_disk, name)
        if path is None:
            return Image.at(await self._built(self._source(name), refresh=refresh))
        if path.is_file() and not await to_thread.run_sync(belongs_to_root, path):
            # Boxes have one user, who could not change the files of others.
            path = await self._built(str(path))
        return Image.at(path)

    def forget(self, name: str) -> None:
        """Delete what was pulled or converted under a name; files that we have not made stay."""
        path = None if URI.match(name) else self._on_disk(name)
        self._place(self._source(name) if path is None else str(path)).unlink(missing_ok=True)

    def _source(self, name: str) -> str:
        """What Apptainer is asked for: Docker's own names go through the mirror of the settings, if there is one."""
        if URI.match(name) and not name.startswith("docker://"):
            return name
        return f"docker://{parse_reference(name).through(self._mirror)}"

    async def _built(self, source: str, *, refresh: bool = False) -> Path:
        path = self._place(source)
        if path.exists() and not refresh:
            return path
        async with file_lock(self._directory / f"{path.stem}.lock"):
            if refresh or not path.exists():
                await self._builder.build(source, path)
        return path

    def _place(self, source: str) -> Path:
        return self._directory / f"{_readable(source)}-{content_key(_identity(source))[:12]}.sif"

    def _on_disk(self, name: str) -> Path | None:
        """A .sif file or directory by its path, or by the name of an image; None where a registry may have it."""
        if name.startswith(("/", "./", "../", "~")) or name.endswith(".sif"):
            return self._at_path(name)
        for directory in self._image_dirs:
            found = search(Path(directory), name)
            if found is not None:
                return found
        return None

    def _at_path(self, name: str) -> Path:
        for path in (Path(name).expanduser(), *(Path(directory) / name for directory in self._image_dirs)):
            if path.exists():
                return path
        raise ImageNotFound(f"there is no image {name}", remedy="give the path of a .sif file or of a directory")


def search(directory: Path, image: str) -> Path | None:
    """The one .sif file of a directory that belongs to an image; ``CreateFailed`` where several may."""
    for stem in naming.exact_stems(image):
        path = directory / f"{stem}.sif"
        if path.is_file():
            return path
    files = sorted(directory.glob("*.sif"))
    for term in naming.search_terms(image):
        found = [path for path in files if naming.holds(path.stem, term)]
        if len(found) > 1:
            names = ", ".join(path.name for path in found[:5])
            raise CreateFailed(f"several files in {directory} may be {image}: {names}", remedy="name one by its path")
        if found:
            return found[0]
    return None


def _identity(source: str) -> list[object]:
    """A local file is known by its time as well: the next one may have the same name."""
    path = Path(re.sub(r"^[a-z-]+:(?://)?", "", source))
    if not source.startswith("docker://") and path.exists():
        info = path.stat()
        return [str(path.resolve()), info.st_size, info.st_mtime_ns]
    return [source]


def _readable(source: str) -> str:
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", source.rpartition("/")[2])
    return name.removesuffix(".tar").removesuffix(".sif")[:80] or "image"
