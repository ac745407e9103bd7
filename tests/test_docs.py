"""README, docs and notebooks cannot rot: their code and commands are run, their tables compared with the source.

In a page, the ``python`` blocks are one program. Its output must be the lines that start with ``#> ``; ``...`` in them
stands for anything.
"""

from __future__ import annotations

import ast
import doctest
import inspect
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import swe_sdk as swe
from scripts.render_tables import TABLES, rendered
from swe_sdk import errors
from swe_sdk.cli import _parser, main
from swe_sdk.demo import examples
from swe_sdk.model.outcome import Mask, Outcome, PatchReport
from swe_sdk.model.policy import DECISIONS
from swe_sdk.recipes.parsers import parser_names

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = {
    page.relative_to(ROOT).as_posix(): page.read_text("utf-8")
    for page in (*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md")))
    if "tutorials" not in page.parts  # made of the notebooks
}
FRAGMENTS = {"docs/providers.md"}
"""Pages whose code is about a provider that the reader writes."""
RUN = [name for name, page in PAGES.items() if "```python" in page and name not in FRAGMENTS]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
ELSEWHERE = re.compile(r"/(?:root|work|home)/(?!agent)\w+")
FLOORS = (
    {"errors", "files", "paths", "model", "shown", "progress", "_loop", "_wakeful", "alongside", "config"},
    {"sandbox"},
    {"agents"},
    {"recipes"},
    {"grading"},
    {"store"},
    {"rollouts", "checkpoint"},
    {
        "measure",
        "reverify",
        "side_by_side",
        "testing",
        "checkup",
        "aio",
        "_aio_sandbox",
        "server",
        "metrics",
        "exports",
        "imports",
    }
    | {"runs", "executors"},
)


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGES[page], re.MULTILINE | re.DOTALL)


def commands(page: str) -> list[list[str]]:
    """The command lines of a page, without their comments."""
    lines = "".join(blocks(page, "sh")).splitlines()
    return [words for words in (shlex.split(line, comments=True) for line in lines) if words]


def tables(page: str) -> list[list[list[str]]]:
    """The bodies of all tables of a page, as cells."""
    found: list[list[list[str]]] = [[]]
    for line in PAGES[page].splitlines():
        if line.startswith("|"):
            found[-1].append([cell.strip() for cell in line.strip("|").split(" | ")])
        elif found[-1]:
            found.append([])
    return [table[2:] for table in found if table]


def codes(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


@pytest.fixture
def environment(local_provider: object, tmp_path: Path) -> dict[str, str]:
    """For programs that open sandboxes: their results and runs go to the folder of the test."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    places = {f"SWE_SDK_{name}": str(tmp_path / name.lower()) for name in ("RESULTS", "RUNS", "INDEX")}
    return {**os.environ, "PATH": path, **places}


# -- what runs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", RUN)
def test_code_runs_and_prints_what_the_page_says(page: str, environment: dict[str, str], tmp_path: Path) -> None:
    code = "\n".join(blocks(page, "python"))
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=250)
    assert done.returncode == 0, done.stderr
    told = [line for line in done.stderr.splitlines() if not line.startswith("stopped")]  # by its deadline, as it says
    assert told == []
    promised = "".join(f"{line}\n" for line in re.findall(r"^\s*#> (.*)$", code, re.MULTILINE))
    assert doctest.OutputChecker().check_output(promised, done.stdout, doctest.ELLIPSIS), done.stdout


@pytest.mark.parametrize("page", FRAGMENTS)
def test_fragments_are_python(page: str) -> None:
    assert blocks(page, "python")
    for code in blocks(page, "python"):
        compile(code, page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@pytest.mark.parametrize("page", [name for name in PAGES if blocks(name, "sh")])
def test_commands_are_understood(page: str) -> None:
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for program, *arguments in commands(page):
        if program == "make":
            assert {word for word in arguments if "=" not in word} <= set(targets)
        elif program == "swe-sdk" and "--help" not in arguments:
            assert _parser().parse_args(arguments)
        elif program == "python":
            assert arguments[:2] in (["-m", "benchmarks"], ["-m", "benchmarks.parity"])  # run whole by their own tests
        elif program.startswith("scripts/"):
            assert os.access(ROOT / program, os.X_OK)
        else:
            assert program in (".", "swe-sdk")


@pytest.mark.parametrize("line", [shlex.join(c) for c in commands("README.md") if c[0] == "swe-sdk"])
def test_commands_of_the_readme_work(line: str, environment: dict[str, str], tmp_path: Path) -> None:
    words = shlex.split(line) + ["--instance-ids", "mini__calc-1"] * ("validate" in line)
    done = subprocess.run(words, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=250)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout
    if "--output" in words:
        written = (tmp_path / words[words.index("--output") + 1]).read_text().splitlines()
        statuses = {row["instance_id"]: row["status"] for row in map(json.loads, written)}
        tools = {task.instance_id: task.environment.model_dump().get("tools", ()) for task in swe.load_tasks("mini")}
        masked = {name for name, needed in tools.items() if not all(map(shutil.which, needed))}
        assert statuses == {name: "masked" if name in masked else "resolved" for name in tools}


# -- tables and examples -----------------------------------------------------------------------------------------------


def test_policy_table_is_the_policy() -> None:
    rows = [row for table in tables("docs/grading.md") for row in table if len(row) == 5]
    shown = {(codes(row[0])[0], codes(row[1])[0]): (row[3], row[4] == "yes") for row in rows}
    assert shown == {line: (decision.verdict, decision.retryable) for line, decision in DECISIONS.items()}


def test_example_outcome_is_what_comes_of_the_first_example(local_provider: Any, tmp_path: Path) -> None:
    (example,) = blocks("docs/grading.md", "json")
    shown = Outcome.model_validate_json(example)
    task = swe.load_tasks("mini")["mini__depsolve-1"]
    found = swe.grade(task, task.grading.wrong_patch, results=tmp_path)
    for field in ("instance_id", "family", "status", "reward", "mask", "tests", "patch", "reason", "flags", "provider"):
        assert getattr(shown, field) == getattr(found, field), field
    assert shown.evidence.keys() == found.evidence.keys()
    assert shown.evidence["apply"] == found.evidence["apply"]
    assert shown.timings_s.keys() == found.timings_s.keys()
    tails = [{k: Path(v).name for k, v in outcome.artifacts.items()} for outcome in (shown, found)]
    assert tails[0] == tails[1]
    assert json.loads(example) == shown.model_dump(mode="json")


def test_every_field_of_an_outcome_is_explained() -> None:
    rows = {name: row[1] for table in tables("docs/grading.md") for row in table for name in codes(row[0])}
    assert set(Outcome.model_fields) <= rows.keys()
    assert set(codes(rows["mask"])) == set(Mask.model_fields)
    assert set(codes(rows["patch"])) == set(PatchReport.model_fields)


def test_every_flag_is_explained() -> None:
    page = PAGES["docs/grading.md"]
    explained = set(
        re.findall(r"^\| `(\w+)` \|", page[page.index("| flag |") : page.index("| evidence |")], re.MULTILINE)
    )
    source = "".join(
        path.read_text() for room in ("grading", "recipes") for path in (ROOT / "swe_sdk" / room).rglob("*.py")
    )
    raised = set(re.findall(r'flag\("(\w+)"\)', source))
    assert raised <= explained
    assert all(f'"{flag}"' in source for flag in explained)


def test_error_tree_is_the_source() -> None:
    (tree,) = blocks("docs/errors.md", "text")
    assert textwrap.indent(tree, "    ") in (errors.__doc__ or "")
    names = [re.sub(r"^[│├└─ ]*", "", line).split()[0] for line in tree.splitlines()]
    public = inspect.getmembers(errors, lambda item: inspect.isclass(item) and issubclass(item, errors.SweError))
    assert set(names) == {name for name, _class in public if not name.startswith("_")}
    parents: list[str] = []
    for line, name in zip(tree.splitlines(), names, strict=True):
        depth = line.index(name) // 4
        parents = [*parents[:depth], name]
        assert all(issubclass(getattr(errors, name), getattr(errors, parent)) for parent in parents), name


def test_log_parsers_are_listed() -> None:
    page = PAGES["docs/parsers.md"]
    listed = codes(page[page.index("Log parsers, with or without") :])
    assert tuple(sorted(set(listed) - {"parse_log_"})) == parser_names()


@pytest.mark.parametrize("name", TABLES)
def test_tables_follow_from_the_code(name: str) -> None:
    page, make = TABLES[name]
    text = PAGES[f"docs/{page}"]
    assert rendered(text, name, make()) == text, "python -m scripts.render_tables"


def test_every_question_is_answered_and_leads_on() -> None:
    sections = re.split(r"^### ", PAGES["docs/faq.md"], flags=re.MULTILINE)[1:]
    assert len(sections) >= 30
    for section in sections:
        question, _, answer = section.partition("\n")
        assert re.search(r"→\s+\[[^]]+\]\(", answer), question
        assert len(answer.partition("→")[0].split()) <= 60, question


def test_concepts_and_guides_tell_their_pitfalls() -> None:
    concepts = ("masks", "integrity", "budgets", "checkpoints", "leases", "cancellation")
    for page in (*concepts, "provider_matrix", "checkpointable_harness", "checkpointable_resources"):
        _, heading, rest = PAGES[f"docs/{page}.md"].partition("\n## Pitfalls\n")
        assert heading, page
        assert rest.partition("\n## ")[0].count("\n- ") >= 3, page


def test_commands_that_validate_are_there() -> None:
    named = [
        each for table in tables("docs/validated.md") for row in table for cell in row[1:4] for each in codes(cell)
    ]
    files = [each for each in named if re.match(r"(tests|scripts)/", each)]
    assert len(files) > 8
    assert [each for each in files if not (ROOT / each).exists()] == []
    for suite in (each for each in named if each.startswith("swe_sdk.testing.")):
        assert (ROOT / (suite.replace(".", "/") + ".py")).is_file(), suite


def test_fields_of_rows_are_known() -> None:
    """Each documented field alone is no unknown one."""
    known = {name for table in tables("docs/tasks.md") for row in table for name in codes(row[0])}
    for name in known:
        with pytest.raises(errors.RowError) as caught:
            swe.load_tasks([{"instance_id": "a", "family": "swe-bench", name: {}}])
        assert "unknown field" not in str(caught.value), name


def test_picture_is_that_of_the_demo() -> None:
    picture = (DOCS / "images" / "demo.svg").read_text("utf-8").replace("&#160;", " ")
    rows = examples(swe.load_tasks("mini"))
    for row in rows:
        assert row.task.instance_id in picture
        assert row.label in picture
    assert [len(re.findall(rf">{status} *<", picture)) for status in ("resolved", "unresolved", "masked")] == [
        sum(row.status == status for row in rows) for status in ("resolved", "unresolved", "masked")
    ]
    assert set(re.findall(r"https?://[^\"' ]+", picture)) <= {"http://www.w3.org/2000/svg", "https://www.textualize.io"}


# -- pages -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", PAGES[page], flags=re.DOTALL)):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        file = (ROOT / page).parent / path if path else ROOT / page
        if "tutorials" in file.parts:
            file = ROOT / "notebooks" / f"{file.stem}.ipynb"
        assert file.exists(), target
        assert not anchor or anchor in _anchors(file.read_text("utf-8")), target


def _anchors(page: str) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    return {re.sub(r"[^\w\s-]", "", title).strip().lower().replace(" ", "-") for title in titles}


def test_every_page_is_in_the_menu() -> None:
    menu = re.findall(r": ([\w/]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    written = {name.removeprefix("docs/") for name in PAGES if name.startswith("docs/")}
    assert set(menu) == written | {f"tutorials/{notebook.stem}.md" for notebook in NOTEBOOKS}


def test_public_names_are_in_the_reference() -> None:
    reference = "".join(page for name, page in PAGES.items() if name.startswith("docs/reference/"))
    shown = set(re.findall(r"^::: [\w.]+?\.(\w+)$", reference, re.MULTILINE))
    within = {"environment": ("DirectorySource", "GitSource", "ImageEnvironment", "SdistSource", "SourceEnvironment")}
    shown |= {name for module in shown & within.keys() for name in within[module]}
    assert set(swe.__all__) - shown <= {"DEFAULT_POLICY", "agents", "aio", "errors", "testing"}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_stored_without_output(path: Path) -> None:
    notebook = json.loads(path.read_text("utf-8"))
    cells = notebook["cells"]
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    assert set(notebook["metadata"]) == {"kernelspec", "language_info"}
    assert len({cell["id"] for cell in cells}) == len(cells)
    for cell in cells:
        assert re.fullmatch(r"[a-z][a-z-]+", cell["id"]), "ids are words, so that they stay the same"
        assert cell["metadata"] == {}
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None)


def test_nothing_names_the_machine_it_was_written_on() -> None:
    files = [*NOTEBOOKS, *DOCS.rglob("*.svg"), ROOT / "mkdocs.yml", *(ROOT / "scripts").glob("*.py")]
    texts = {**PAGES, **{str(path): path.read_text("utf-8") for path in files}}
    assert {name: found for name, text in texts.items() if (found := ELSEWHERE.findall(text))} == {}


def test_lower_floors_never_import_higher_ones() -> None:
    """The rule of CONTRIBUTING.md."""
    level = {room: number for number, floor in enumerate(FLOORS) for room in floor}
    for path in (ROOT / "swe_sdk").rglob("*.py"):
        room = path.relative_to(ROOT / "swe_sdk").parts[0].removesuffix(".py")
        for module in re.findall(r"^\s*from swe_sdk\.(\w+)", path.read_text(), re.MULTILINE):
            if room in level:
                assert level.get(module, len(FLOORS)) <= level[room], f"{path} imports {module}"


def test_version_is_in_the_changelog() -> None:
    assert f"## [{swe.__version__}]" in PAGES["CHANGELOG.md"]
    entries = re.findall(r"^- (.*)$", PAGES["CHANGELOG.md"], re.MULTILINE)
    assert all(len(entry.split()) <= 25 for entry in entries)
    assert main(["--help"]) == 0
