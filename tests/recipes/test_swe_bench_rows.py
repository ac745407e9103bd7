"""Rows of every layout become tasks, keep their secrets, and fail by name where they are malformed."""

from __future__ import annotations

import json
from typing import Any

import pytest
import sample_rows
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from swebench.harness.utils import make_test_spec

from swe_sdk.errors import InputError, RowError
from swe_sdk.model.environment import DirectorySource, GitSource, ImageEnvironment, SdistSource, SourceEnvironment
from swe_sdk.model.task import Task
from swe_sdk.recipes.contract import Recipe
from swe_sdk.recipes.row import UnknownFields
from swe_sdk.recipes.swe_bench import SweBenchRecipe
from tests.shared import shared_dir, shared_rows

RECIPE = SweBenchRecipe()
LAYOUTS = sorted(sample_rows.ALL)


def source_of(task: Task) -> Any:
    assert isinstance(task.environment, SourceEnvironment)
    return task.environment.source


def problem_of(row: dict[str, Any], root) -> RowError:
    with pytest.raises(RowError) as caught:
        sample_rows.to_task(row, root)
    return caught.value


def test_the_recipe_keeps_its_contract():
    assert isinstance(RECIPE, Recipe)
    assert [rung.name for rung in RECIPE.ladder] == ["git-apply", "git-apply-3way", "git-apply-reject", "patch-fuzz"]
    assert all('"$PATCH"' in rung.command for rung in RECIPE.ladder)
    assert RECIPE.version != SweBenchRecipe(compat="4.1.0").version
    with pytest.raises(InputError, match="unknown compat"):
        SweBenchRecipe(compat="3")  # type: ignore[arg-type]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_is_recognized_and_converted(layout, tmp_path):
    row = sample_rows.ALL[layout]
    assert RECIPE.recognizes(row)
    task = sample_rows.to_task(row, tmp_path)
    assert (task.instance_id, task.family, task.version) == (row["instance_id"], "swe-bench", "2.3")
    assert task.grading.fail_to_pass == ("tests/test_hidden.py::test_secret_id",)
    assert task.grading.pass_to_pass == ("tests/test_hidden.py::test_other_secret_id",)
    assert task.grading.test_patch.text == sample_rows.TEST_PATCH
    assert task.grading.gold_patch is not None
    assert task.grading.gold_patch.text == sample_rows.GOLD
    assert task.grading.test_command == "pytest -rA tests/test_hidden.py"
    assert Task.model_validate(json.loads(json.dumps(task.private()))) == task


@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_secret_reaches_the_public_half(layout, tmp_path):
    task = sample_rows.to_task(sample_rows.ALL[layout], tmp_path)
    for shown in (json.dumps(task.public()), repr(task), str(task), f"{task.grading!r}", task.model_dump_json()):
        assert not [secret for secret in sample_rows.SECRETS if secret in shown]


def test_a_classic_row_gets_the_official_image_and_commands(tmp_path):
    task = sample_rows.to_task(sample_rows.CLASSIC, tmp_path)
    assert isinstance(task.environment, ImageEnvironment)
    assert task.environment.image == "swebench/sweb.eval.x86_64.pallets_1776_flask-1:latest"
    assert task.grading.parser == "parse_log_flask"
    assert task.grading.prelude.endswith("conda activate testbed\npython -m pip install -e .")
    assert task.metadata == {"difficulty": "15 min", "environment_setup_commit": "def"}


def test_a_modern_row_is_split_and_shows_only_the_images_of_its_statement(tmp_path):
    task = sample_rows.to_task(sample_rows.MODERN, tmp_path)
    assert task.grading.prelude == "set -uxo pipefail\ncd /testbed\nexport MODE=strict\npython -m pip install -e ."
    assert task.metadata["image_assets"] == {"problem_statement": ["https://example.org/shown.png"]}
    assert task.grading.test_assets == {"tests/secret_picture.png": "https://example.org/secret_picture.png"}


def test_sources(tmp_path):
    sdist = source_of(sample_rows.to_task(sample_rows.SDIST, tmp_path))
    assert sdist == SdistSource(name="flask", version="2.3.0", sha256="a" * 64, filename="Flask-2.3.0.tar.gz")
    upper = {**sample_rows.SDIST["sdist"], "sha256": "B" * 64}
    assert source_of(sample_rows.to_task({**sample_rows.SDIST, "sdist": upper}, tmp_path)).sha256 == "b" * 64
    directory = sample_rows.to_task(sample_rows.DIRECTORY, tmp_path)
    assert source_of(directory) == DirectorySource(path=str(tmp_path.resolve() / "repos" / "flask"))
    assert isinstance(directory.environment, SourceEnvironment)
    assert directory.environment.tools == ("node",)
    assert directory.environment.install == ("python -m pip install -e .",)
    assert directory.grading.prelude == ""
    git = source_of(sample_rows.to_task(sample_rows.GIT, tmp_path))
    assert git == GitSource(url="https://example.org/flask.git", commit="abc1234")


@pytest.mark.parametrize("url", ["ssh://git@example.org/x", "git@example.org:x/y.git", "file:///srv/x.git"])
def test_addresses_of_git_repositories_are_kept(url, tmp_path):
    task = sample_rows.to_task({**sample_rows.GIT, "git": {"url": url, "commit": "c"}}, tmp_path)
    assert source_of(task).url == url


def test_a_path_of_a_git_repository_starts_at_the_root(tmp_path):
    row = {**sample_rows.GIT, "git": {"url": "repos/flask", "commit": "c"}}
    assert source_of(sample_rows.to_task(row, tmp_path)).url == str(tmp_path.resolve() / "repos" / "flask")


def test_a_directory_must_exist_inside_the_root_unless_absolute(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to(outside)
    for name in ("../outside", "link", "repos/../../outside"):
        error = problem_of({**sample_rows.DIRECTORY, "directory": name}, root)
        assert "lies outside" in str(error)
        assert "absolute path" in error.remedy
    assert "there is no directory" in str(problem_of({**sample_rows.DIRECTORY, "directory": "repos/flusk"}, root))
    absolute = sample_rows.to_task({**sample_rows.DIRECTORY, "directory": str(outside)}, root)
    assert source_of(absolute).path == str(outside.resolve())
    (root / "circle").symlink_to(root / "circle")
    problem_of({**sample_rows.DIRECTORY, "directory": "circle"}, root)
    problem_of({**sample_rows.DIRECTORY, "directory": "x" * 5000}, root)


@pytest.mark.parametrize(
    ("layout", "changes", "expected"),
    [
        ("classic", {"repo": "torvalds/linux"}, "nothing is known about how to test 'torvalds/linux'"),
        ("classic", {"version": "99.1"}, "version '99.1' of pallets/flask has no known test command"),
        ("classic", {"FAIL_TO_PASS": None}, "the field 'FAIL_TO_PASS' is missing"),
        ("classic", {"FAIL_TO_PASS": "[1, 2"}, "'FAIL_TO_PASS' holds a text that is not JSON"),
        ("classic", {"FAIL_TO_PASS": [1]}, "'FAIL_TO_PASS' must hold text, not a number"),
        ("classic", {"FAIL_TO_PASS": {"a": 1}}, "'FAIL_TO_PASS' must be a list of test ids, not an object"),
        ("classic", {"fail_to_pass": ["a"]}, "both 'FAIL_TO_PASS' and 'fail_to_pass'"),
        ("classic", {"instance_id": ""}, "'instance_id' is empty"),
        ("classic", {"instance_id": 7}, "'instance_id' must hold text, not a number"),
        ("classic", {"instance_id": "a\nb"}, "unprintable"),
        ("classic", {"test_patch": None}, "the field 'test_patch' is missing"),
        ("classic", {"patch": ["x"]}, "'patch' must hold text, not a list"),
        ("classic", {"patch_base64": "eA=="}, "both 'patch' and 'patch_base64'"),
        ("classic", {"patch": None, "patch_base64": "not base64!"}, "'patch_base64' is not base64"),
        ("classic", {"patch": "\ud800"}, "lone surrogates"),
        ("classic", {"problem_statement": "\ud800"}, "lone surrogates"),
        ("classic", {"difficulty": float("nan")}, "'difficulty' is not plain JSON data"),
        ("modern", {"eval_type": "whatever"}, "unknown eval_type 'whatever'"),
        ("modern", {"image": None}, "the field 'image' is missing"),
        ("modern", {"log_parser": ""}, "'log_parser' is empty"),
        ("modern", {"eval_script": "echo hello"}, "there is no line : '>>>>> Start Test Output'"),
        ("modern", {"image_assets": '{"test_patch": [{"path": "x"}]}'}, "the field 'url' is missing"),
        ("modern", {"image_assets": "[]"}, "'image_assets' must be an object"),
        ("modern", {"sdist": {"name": "x"}}, "both 'eval_script' and 'sdist'"),
        ("sdist", {"sdist": {"name": "f", "version": "1", "sha256": "a" * 60}}, "sha256: String should match"),
        ("sdist", {"sdist": {"name": "f", "version": "1"}}, "the field 'sha256' is missing"),
        ("sdist", {"sdist": "flask"}, "'sdist' holds a text that is not JSON"),
        ("sdist", {"sdist": {"name": "f", "version": 2.3, "sha256": "a" * 64}}, 'write it as "2.3"'),
        ("sdist", {"python": 3.1}, 'write it as "3.1"'),
        ("sdist", {"env": {"A": 1}}, "'env.A' must hold text"),
        ("sdist", {"env": {"A=B": "1"}}, "env: Value error, a variable's name must be"),
        ("sdist", {"test_command": None}, "the field 'test_command' is missing"),
        ("sdist", {"git": {"url": "u", "commit": "c"}}, "both 'sdist' and 'git'"),
        ("directory", {"directory": "a\0b"}, "NUL"),
        ("git", {"git": {"url": "https://x/y", "commit": "c", "branch": "b"}}, "unknown field 'branch'"),
    ],
)
def test_a_malformed_row_is_named_with_its_field(layout, changes, expected, tmp_path):
    error = problem_of({**sample_rows.ALL[layout], **changes}, tmp_path)
    assert expected in str(error)
    assert str(error).startswith("rows.jsonl:1")


def test_errors_name_the_instance_and_the_remedy(tmp_path):
    error = problem_of({**sample_rows.CLASSIC, "repo": "torvalds/linux"}, tmp_path)
    assert error.instance_id == "pallets__flask-1"
    assert "eval_script" in error.remedy
    assert "pallets/flask" in error.remedy


def test_an_unknown_field_is_named_with_its_likely_spelling(tmp_path):
    error = problem_of({**sample_rows.CLASSIC, "problem_statment": "typo"}, tmp_path)
    assert isinstance(error, UnknownFields)
    assert error.fields == ("problem_statment",)
    assert "did you mean problem_statement" in str(error)
    assert "unknown_fields='ignore'" in str(error)


def test_bytes_of_any_encoding_come_through_base64(tmp_path):
    row = {**sample_rows.CLASSIC, "patch": None, "patch_base64": "/wA=", "wrong_patch_base64": "/g=="}
    grading = sample_rows.to_task(row, tmp_path).grading
    assert grading.gold_patch is not None
    assert grading.wrong_patch is not None
    assert (grading.gold_patch.data, grading.wrong_patch.data) == (b"\xff\x00\n", b"\xfe\n")


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["[", "{}", '["a"]', "\ud800"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def broken_rows(draw: st.DrawFn) -> dict[str, Any]:
    row = dict(sample_rows.ALL[draw(st.sampled_from(LAYOUTS))])
    fields = draw(st.lists(st.sampled_from(sorted(row)), min_size=1, max_size=4, unique=True))
    for field in fields:
        inner = row[field]
        if isinstance(inner, dict) and draw(st.booleans()):
            row[field] = {**inner, draw(st.sampled_from([*inner, "x"])): draw(JSON)}
        elif draw(st.booleans()):
            row.pop(field)
        else:
            row[field] = draw(JSON)
    return row


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(row=broken_rows())
def test_no_row_gives_anything_but_a_task_or_a_row_error(row, tmp_path):
    RECIPE.recognizes(row)
    try:
        task = sample_rows.to_task(row, tmp_path)
    except RowError:
        return
    json.dumps(task.public(), allow_nan=False).encode()
    assert Task.model_validate(json.loads(json.dumps(task.private()))) == task


def modern_rows() -> list[dict[str, Any]]:
    names = ("verified_v5", "multimodal_v5", "marked_v5_js")
    return shared_rows(*(f"rows/swe-bench/{name}.jsonl" for name in names))


def by_id(row: dict[str, Any]) -> str:
    return str(row["instance_id"])


@pytest.mark.shared
def test_real_rows_of_both_generations_say_the_same(tmp_path):
    shared_dir()
    classic = shared_rows("rows/swe-bench/verified_classic.jsonl")
    modern = shared_rows("rows/swe-bench/verified_v5.jsonl")
    assert len(classic) == len(modern) == 120
    for old, new in zip(classic, modern, strict=True):
        task, other = (RECIPE.to_task(row, where="row", root=tmp_path) for row in (old, new))
        spec = make_test_spec(new)
        assert task.environment == other.environment == ImageEnvironment(image=spec.image)
        assert list(task.grading.fail_to_pass) == list(other.grading.fail_to_pass) == spec.FAIL_TO_PASS
        assert list(task.grading.pass_to_pass) == list(other.grading.pass_to_pass) == spec.PASS_TO_PASS
        assert task.grading.prelude == other.grading.prelude
        assert task.grading.test_command == other.grading.test_command
        assert task.grading.test_patch == other.grading.test_patch
        assert other.grading.parser == spec.log_parser


@pytest.mark.shared
@pytest.mark.parametrize("row", modern_rows(), ids=by_id)
def test_a_real_5x_row_keeps_its_facts_and_its_secrets(row, tmp_path):
    task = RECIPE.to_task(row, where="row", root=tmp_path)
    spec = make_test_spec(row)
    assert (task.grading.eval_type, task.grading.parser) == (spec.eval_type, spec.log_parser)
    assert_secrets_are_kept(task)


@pytest.mark.shared
@pytest.mark.parametrize("name", ["tasks", "tasks_py311"])
def test_the_real_sdist_rows_keep_their_facts_and_their_secrets(name, tmp_path):
    shared_dir()
    rows = shared_rows(f"swebench_sdist/{name}.jsonl")
    assert len(rows) == {"tasks": 35, "tasks_py311": 26}[name]
    for row in rows:
        task = RECIPE.to_task(row, where="row", root=tmp_path)
        environment = task.environment
        assert isinstance(environment, SourceEnvironment)
        assert environment.python == row["python"]
        assert list(environment.pip) == row["pip"]
        assert environment.install == (row["install"],)
        assert environment.env == row["env"]
        assert environment.source == SdistSource(**row["sdist"])
        assert task.grading.test_command == row["test_command"]
        assert task.grading.wrong_patch is not None
        assert task.grading.wrong_patch.data.decode().rstrip("\n") == row["wrong_patch"].rstrip("\n")
        assert list(task.grading.fail_to_pass) == row["fail_to_pass"]
        assert_secrets_are_kept(task)


def assert_secrets_are_kept(task: Task) -> None:
    """No changed line, test id or test path of the hidden half is to be read in the public one.

    The statement and the hints may say anything: their authors wrote them.
    """
    public = {name: value for name, value in task.public().items() if name not in ("problem_statement", "hints")}
    shown = json.dumps(public, ensure_ascii=False) + repr(task) + repr(task.grading)
    grading = task.grading
    hidden = {*grading.fail_to_pass, *grading.pass_to_pass, grading.test_command}
    for patch in (grading.test_patch, grading.gold_patch, grading.wrong_patch):
        if patch is not None:
            hidden |= {line[1:].strip() for line in patch.text.splitlines() if line[:1] in "+-" and len(line) > 20}
            hidden |= {path.decode() for file in patch.files for path in file.paths}
    hidden |= set(grading.test_assets)
    assert not [secret for secret in hidden if len(secret) > 4 and secret in shown]
