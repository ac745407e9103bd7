"""Agents know nothing of grading: not one module of theirs leads there, however far one follows its imports."""

from __future__ import annotations

import ast
import pkgutil
import subprocess
import sys
from pathlib import Path

import swe_sdk.agents

ROOT = Path(swe_sdk.agents.__file__).parent
PRIVATE = ("swe_sdk.grading", "swe_sdk.recipes", "swe_sdk.rollouts", "swe_sdk.measure")


def modules() -> list[str]:
    return [module.name for module in pkgutil.walk_packages([str(ROOT)], "swe_sdk.agents.")]


def imports_of(path: Path) -> set[str]:
    """Modules of ours that a file imports, at its top or within its functions, but for type checkers alone."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {name for name in found if name.startswith("swe_sdk")}


def test_no_file_of_theirs_names_what_is_private() -> None:
    files = list(ROOT.rglob("*.py"))
    assert len(files) >= 7
    named = {str(file.relative_to(ROOT)): imports_of(file) for file in files}
    assert {file: name for file, names in named.items() for name in names if name.startswith(PRIVATE)} == {}


def test_importing_all_of_them_loads_nothing_private() -> None:
    code = (
        "import importlib, sys\n"
        f"for name in {modules()!r}:\n"
        "    try:\n"
        "        importlib.import_module(name)\n"
        "    except ModuleNotFoundError as error:\n"
        "        assert not (error.name or '').startswith('swe_sdk'), error\n"
        f"print(sorted(name for name in sys.modules if name.startswith({PRIVATE!r})))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_naming_an_agent_loads_no_other() -> None:
    code = (
        "import sys\n"
        "from swe_sdk.agents.registry import make_agent\n"
        "make_agent('noop')\n"
        "print(sorted(name for name in sys.modules if name.startswith('swe_sdk.agents.')))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == str(["swe_sdk.agents.contract", "swe_sdk.agents.noop", "swe_sdk.agents.registry"]), (
        done.stderr
    )
