"""What may be said about the Apptainer provider."""

from __future__ import annotations

import os

from pydantic import Field

from swe_sdk.model.record import Record


def _directories() -> tuple[str, ...]:
    return tuple(name for name in os.environ.get("SWE_SDK_SIF_DIR", "").split(os.pathsep) if name)


class ApptainerSettings(Record):
    """The defaults are what the environment says."""

    program: str | None = Field(default_factory=lambda: os.environ.get("SWE_SDK_APPTAINER") or None)
    """Path of ``apptainer``; else it is looked for on PATH."""
    image_dirs: tuple[str, ...] = Field(default_factory=_directories)
    """Directories of .sif files, looked through in this order (``SWE_SDK_SIF_DIR``, separated by colons)."""
    base_image: str | None = Field(default_factory=lambda: os.environ.get("SWE_SDK_BASE_IMAGE") or None)
    """What environments are built on, and what a box without an image is made of."""
    start_timeout_s: float = Field(default=120.0, gt=0)
    """For Apptainer to mount an image: a parallel file system that is busy can be slow."""
    build_timeout_s: float = Field(default=3600.0, gt=0)
    """For one attempt to pull and convert an image."""
    build_attempts: int = Field(default=4, gt=0)
    backoff_s: float = Field(default=2.0, gt=0)
    """Before the second attempt; three times as long before each further one."""
    free_bytes: int = Field(default=2 << 30, ge=0)
    """What must be free on the disk before an image is pulled."""
    idle_images: int = Field(default=4, ge=0)
    """How many images without a box stay mounted, ready for the next box (20 MB of memory each)."""
    idle_s: float = Field(default=10.0, ge=0)
    """An image that was wanted so lately stays mounted in any case: a box may be on its way."""
