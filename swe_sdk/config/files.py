"""Configuration files: TOML or JSON."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from swe_sdk.errors import InputError

_READERS = {".toml": tomllib.loads, ".json": json.loads}


def read_config_file(path: Path | str) -> dict[str, Any]:
    """The settings of a file, unchecked. Raises ``InputError`` for one that cannot be read as a table of settings."""
    file = Path(path)
    reader = _READERS.get(file.suffix.lower())
    if reader is None:
        raise InputError(f"{file}: no format is known by that ending", remedy="write it as .toml or .json")
    try:
        settings = reader(file.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"cannot read the configuration {file}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # the errors of both readers, and text that is not UTF-8
        raise InputError(f"{file}: {error}", remedy=f"correct the {file.suffix[1:].upper()}") from None
    if not isinstance(settings, dict):
        raise InputError(f"{file}: it holds a {type(settings).__name__}", remedy="write an object of settings")
    return settings
