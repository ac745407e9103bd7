"""The source of a task's repository, from the fields of its row: an sdist, a git repository or a directory."""

from __future__ import annotations

import re
from pathlib import Path

from swe_sdk.model.environment import DirectorySource, GitSource, SdistSource, Source, SourceEnvironment
from swe_sdk.paths import bundled_datasets_dir
from swe_sdk.recipes.row import Row

SOURCES = ("sdist", "git", "directory")
"""The fields of which a row with a source has one."""

ENVIRONMENT_FIELDS = (*SOURCES, "python", "pip", "pre_install", "install", "env", "tools")

_ELSEWHERE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|[^/]+@[^/]+:|/")


def source_environment(row: Row, root: Path) -> SourceEnvironment:
    """The environment that ``row`` describes; raises RowError, or ValidationError where the model refuses a value."""
    name = row.one_of(*SOURCES)
    read = {"sdist": _sdist, "git": _git, "directory": _directory}[name]
    return SourceEnvironment(
        source=read(row, root),
        python=row.optional_text("python"),
        pip=row.texts("pip"),
        pre_install=row.texts("pre_install"),
        install=row.texts("install"),
        env=row.text_map("env"),
        tools=row.texts("tools"),
    )


def _sdist(row: Row, root: Path) -> Source:
    fields = row.mapping("sdist")
    fields.require_known(("name", "version", "sha256", "filename"))
    return SdistSource(
        name=fields.text("name"),
        version=fields.text("version"),
        sha256=fields.text("sha256").lower(),
        filename=fields.optional_text("filename"),
    )


def _git(row: Row, root: Path) -> Source:
    fields = row.mapping("git")
    fields.require_known(("url", "commit"))
    url = fields.text("url")
    return GitSource(url=url if _is_remote(url) else str(_folder(row, url, root)), commit=fields.text("commit"))


def _directory(row: Row, root: Path) -> Source:
    return DirectorySource(path=str(_folder(row, row.text("directory"), root)))


def _is_remote(url: str) -> bool:
    match = _ELSEWHERE.match(url)
    return match is not None and match[0] != "/"


def _folder(row: Row, name: str, root: Path) -> Path:
    """The existing folder ``name``; a relative one must lie, links resolved, in ``root`` or the bundled data sets."""
    try:
        base, bundled, folder = root.resolve(), bundled_datasets_dir().resolve(), (root / name).resolve()
        is_folder = folder.is_dir()
    except (OSError, RuntimeError) as error:  # a name that is too long, a circle of links
        raise row.error(f"the directory {name!r} cannot be read: {error}") from None
    if not Path(name).is_absolute() and not any(map(folder.is_relative_to, (base, bundled))):
        raise row.error(f"the directory {name!r} lies outside {base}", "move it there, or give an absolute path")
    if not is_folder:
        raise row.error(f"there is no directory {folder}", f"relative paths start at {base}")
    return folder
