"""How the tasks of SWE-bench Multilingual are built and tested, for rows that carry no ``eval_script``. Pure.

The table beside this file has the commands of the 300 tasks by repository and version (the number of the pull request),
as swebench 4.1.0 runs them: facts of its dataset, taken from its ``MAP_REPO_VERSION_TO_SPECS``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from swe_sdk.model.environment import WORKDIR

_TABLE = Path(__file__).with_name("swe_bench_multilingual.json")


@dataclass(frozen=True)
class Commands:
    """Shell lines, in the repository, that build it with its tests in place, and that run the tests."""

    build: tuple[str, ...]
    test: tuple[str, ...]

    def prelude(self) -> str:
        """The shell lines before the tests."""
        trust = f"git config --global --add safe.directory {WORKDIR}"
        return "\n".join(("set -uxo pipefail", f"cd {WORKDIR}", trust, f"cd {WORKDIR}", *self.build))


@cache
def _table() -> dict[str, dict[str, dict[str, list[str]]]]:
    table: dict[str, dict[str, dict[str, list[str]]]] = json.loads(_TABLE.read_text("utf-8"))
    return table


def known_repositories() -> tuple[str, ...]:
    """The 41 repositories of the table."""
    return tuple(_table())


def known_versions(repo: str) -> tuple[str, ...]:
    """The versions of ``repo`` in the table; none where it does not have ``repo``."""
    return tuple(_table().get(repo, ()))


def find_commands(repo: str, version: str) -> Commands | None:
    """How that version of ``repo`` is built and tested, or None where the table does not say."""
    found = _table().get(repo, {}).get(version)
    return None if found is None else Commands(tuple(found.get("build", ())), tuple(found["test"]))
