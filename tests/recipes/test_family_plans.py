"""Real rows become the plans that the reference's table gives: written from the table, not from our output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from swe_sdk.model.environment import ImageEnvironment
from swe_sdk.model.task import Task
from swe_sdk.recipes.contract import ReadsResults
from swe_sdk.recipes.dataset import load_tasks
from swe_sdk.recipes.registry import get_recipe
from tests.shared import shared_dir, shared_rows

pytestmark = pytest.mark.shared

PLANS: dict[str, dict[str, Any]] = {
    "nemo_gym/swe_rebench/example.jsonl": {
        "family": "swe-rebench",
        "id": "intel__rohd-458",
        "image": "docker.io/swerebenchv2/intel-rohd:458-395921c",
        "workdir": "/rohd",
        "base_commit": "395921c5501612c62c812d3aa7c57517018c4fc8",
        "prelude": [
            "export _JAVA_OPTIONS=-Djava.net.preferIPv6Addresses=false",
            "export PUB_CACHE=/workspace/.pub-cache && mkdir -p /workspace/.pub-cache",
            "export PUB_CACHE=/workspace/.pub-cache && dart pub get",
        ],
        "tests": "dart test --reporter json --no-color",
        "parser": "parse_log_dart",
        "f2p": 4,
        "first": "across simulator reset normal logic",
        "tested_files": [b"test/changed_test.dart"],
        "model": "git apply --reject --recount --ignore-space-change --whitespace=nowarn",
    },
    "swe-rebench/v2_sample.jsonl": {
        "family": "swe-rebench",
        "id": "unidata__netcdf-c-1925",
        "image": "docker.io/swerebenchv2/unidata-netcdf-c:1925-ad6bff3",
        "workdir": "/netcdf-c",
        "base_commit": "ad6bff35c39a0600fb8f2e176be4269e768e4e22",
        "prelude": [
            "export _JAVA_OPTIONS=-Djava.net.preferIPv6Addresses=false",
            "export DEBIAN_FRONTEND=noninteractive",
            "apt-get update -qq",
            "apt-get install -y -qq libhdf5-dev libcurl4-openssl-dev pkg-config",
            "./bootstrap",
            'CPPFLAGS="$(pkg-config --cflags hdf5-serial)" LDFLAGS="$(pkg-config --libs-only-L hdf5-serial)"'
            ' LIBS="$(pkg-config --libs-only-l hdf5-serial) -lz -ldl" ./configure --enable-testsets --disable-valgrind'
            " --prefix=/usr/local",
            "make -j$(nproc)",
        ],
        "tests": "make check",
        "parser": "parse_log_jq",
        "f2p": 12,
        "first": "tst_filter.sh",
        "tested_files": [b"nc_test4/Makefile.am"],
        "model": "git apply --reject --recount --ignore-space-change --whitespace=nowarn",
    },
    "nemo_gym/r2e_gym/example.jsonl": {
        "family": "r2e-gym",
        "id": "pillow__6e97dd5cecc074a0d8622e4aa5658b4263324760",
        "image": "namanjain12/pillow_final:6e97dd5cecc074a0d8622e4aa5658b4263324760",
        "workdir": "/testbed",
        "base_commit": None,
        "prelude": [],
        "tests": "run_tests.sh",
        "parser": "r2e_pytest",
        "f2p": 1,
        "first": "test_save",
        "tested_files": [],
        "model": "git apply --whitespace=fix",
    },
    "nemo_gym/swe_env_pr/example.jsonl": {
        "family": "swe-bench-ext",
        "id": "swe-bench-ext-example-0",
        "image": "swe-env-itest:local",
        "workdir": "/testbed",
        "base_commit": "HEAD",
        "prelude": ["cd /testbed 2>/dev/null || cd /workspace/repo 2>/dev/null || cd /app 2>/dev/null || true"],
        "tests": "python -m pytest -rA -q --junitxml=/workspace/test-results/output.xml",
        "parser": "pytest",
        "f2p": 1,
        "first": "test_calc.py::test_add",
        "tested_files": [],
        "model": "git apply --reject --recount --ignore-space-change --ignore-whitespace",
    },
    "nemo_gym/swebench_pro/example.jsonl": {
        "family": "nv-internal-1",
        "id": "instance_NodeBB__NodeBB-04998908ba6721d64eba79ae3b65a351dcfbc5b5-vnan",
        "image": "jefzda/sweap-images:nodebb.nodebb-NodeBB__NodeBB-04998908ba6721d64eba79ae3b65a351dcfbc5b5",
        "workdir": "/app",
        "base_commit": "1e137b07052bc3ea0da44ed201702c94055b8ad2",
        "prelude": [
            'export PYTEST_ADDOPTS="--tb=short -v --continue-on-collection-errors --reruns=3"',
            'export UV_HTTP_TIMEOUT="60"',
            "git checkout 04998908ba6721d64eba79ae3b65a351dcfbc5b5 -- test/database/keys.js test/user/emails.js",
        ],
        "tests": "test/database.js,test/database/keys.js,test/user/emails.js",
        "parser": "parsing_script",
        "f2p": None,
        "first": "test/database.js | Test database test/database/keys.js::Key methods should return multiple keys"
        " and null if key doesn't exist",
        "tested_files": [],
        "model": "git apply --ignore-space-change --ignore-whitespace --reject -v",
    },
}


CLASSIC = "swe-bench/verified_classic.jsonl"
OFFICIAL_LADDER = ("git apply --verbose", "git apply --verbose --reject", "patch --batch --fuzz=5 -p1")
NESTED: dict[str, dict[str, Any]] = {
    "swe-bench": {
        "place": CLASSIC,
        "image": "swebench/sweb.eval.x86_64.astropy_1776_astropy-13033:latest",
        "setup": "/swebench_setup/SWE-bench",
        "program": "-m swebench.harness.run_local_evaluation",
        "options": "--predictions_path --instance_ids --timeout --dataset_name --split --run_id",
        "instance": "astropy__astropy-13033",
    },
    "swe-bench-multilingual": {
        "place": CLASSIC,
        "image": "swebench/sweb.eval.x86_64.astropy_1776_astropy-13033:latest",
        "setup": "/swebench_multilingual_setup/SWE-bench_Multilingual",
        "program": "-m swebench.harness.run_local_evaluation",
        "options": "--predictions_path --instance_ids --timeout --dataset_name --split --run_id",
        "instance": "astropy__astropy-13033",
    },
    "r2e-gym": {
        "place": "nemo_gym/r2e_gym/example.jsonl",
        "image": "namanjain12/pillow_final:6e97dd5cecc074a0d8622e4aa5658b4263324760",
        "setup": "/r2egym_setup/R2E-Gym",
        "program": "src/r2egym/agenthub/run/run_local_evaluation.py",
        "options": "--predictions_path --instance_id --timeout --dataset --output_dir",
        "instance": "pillow__6e97dd5cecc074a0d8622e4aa5658b4263324760",
    },
}
"""The three families whose upstream brings an evaluator of its own."""


def first_task(place: str, family: str | None = None) -> Task:
    return load_tasks(shared_dir() / "datasets" / "rows" / place, family=family)[0]


@pytest.mark.parametrize("place", PLANS)
def test_the_reference_plan_of_a_real_row(place: str) -> None:
    plan = PLANS[place]
    task = first_task(place, f"{plan['family']}@legacy")
    spec, recipe = task.grading, get_recipe(task.family)
    assert (task.instance_id, task.base_commit) == (plan["id"], plan["base_commit"])
    assert isinstance(task.environment, ImageEnvironment)
    assert (task.environment.image, task.environment.workdir) == (plan["image"], plan["workdir"])
    assert task.environment.base == plan["base_commit"], "reset --hard, and never a git clean"
    assert [line for line in spec.prelude.splitlines() if line in plan["prelude"]] == plan["prelude"]
    assert plan["tests"] in spec.test_command
    assert spec.parser == plan["parser"]
    assert plan["f2p"] in (None, len(spec.fail_to_pass))
    assert spec.fail_to_pass[0] == plan["first"]
    assert [file.paths[0] for file in spec.test_patch.files][:1] == plan["tested_files"]
    (rung,) = recipe.ladder
    assert rung.command == f'{plan["model"]} "$PATCH"'
    assert rung.tolerant == (plan["family"] != "r2e-gym"), "hunks that do not apply are dropped, but for r2e-gym"


def nested_task(family: str) -> Task:
    """The first row of its place; the multilingual family knows no such repository, and is told how to test it."""
    row = shared_rows(f"rows/{NESTED[family]['place']}")[0]
    told = {"test_command": "make check", "log_parser": "pytest"} if family == "swe-bench-multilingual" else {}
    if told:
        told["image"] = NESTED[family]["image"]
    return load_tasks([{**row, **told}], family=f"{family}@nested", unknown_fields="ignore")[0]


@pytest.mark.parametrize("family", NESTED)
def test_the_reference_plan_of_a_nested_evaluation(family: str) -> None:
    shared_dir()
    plan, task = NESTED[family], nested_task(family)
    assert isinstance(task.environment, ImageEnvironment)
    assert (task.environment.image, task.environment.workdir) == (plan["image"], "/testbed")
    (command,) = [line for line in task.grading.test_command.splitlines() if "run_local_evaluation" in line]
    assert plan["program"] in command
    assert plan["setup"] in command
    options = [word for word in command.split() if word.startswith("--")]
    assert options == plan["options"].split()
    words = dict(zip(command.split(), command.split()[1:], strict=False))
    assert words.get("--instance_ids", words.get("--instance_id")) == plan["instance"]
    assert words.get("--dataset_name", words.get("--dataset")) == "/root/dataset/data.jsonl"
    assert words["--predictions_path"] == "/root/predictions.jsonl"
    assert words.get("--split", "test") == "test"
    written = task.grading.prelude.partition("<<'SWE_SDK_ROW'\n")[2].partition("\nSWE_SDK_ROW")[0]
    assert json.loads(written)["instance_id"] == plan["instance"]
    assert all(f'"{name}":' in task.grading.prelude for name in ("instance_id", "model_name_or_path", "model_patch"))
    assert task.grading.result_files == ("report.json",)


@pytest.mark.parametrize("family", ["swe-bench", "swe-bench-multilingual"])
def test_the_reference_ladder_of_the_official_harness(family: str) -> None:
    """The three commands of the reference, in its order; ours has the newer harness's third way between them."""
    commands = [rung.command.removesuffix(' "$PATCH"') for rung in get_recipe(family).ladder]
    kept = [command.replace(" -i", "").strip() for command in commands if "3way" not in command]
    assert len(kept) == len(OFFICIAL_LADDER)
    for ours, theirs in zip(kept, OFFICIAL_LADDER, strict=True):
        assert set(theirs.split()) <= set(ours.split())
    assert not any(rung.tolerant for rung in get_recipe(family).ladder)


def test_the_reference_plan_of_a_flat_evaluation() -> None:
    """Rows with the official script are run by it; the section between its markers is what is read."""
    task = first_task("swe-bench/verified_v5.jsonl")
    row = shared_rows("rows/swe-bench/verified_v5.jsonl")[0]
    assert isinstance(task.environment, ImageEnvironment)
    image = f"sweb.eval.x86_64.{task.instance_id.lower().replace('__', '_1776_')}"
    assert image in task.environment.image
    assert (task.environment.workdir, task.environment.base) == ("/testbed", None)
    before, _, rest = row["eval_script"].partition(">>>>> Start Test Output")
    section = rest.partition(">>>>> End Test Output")[0]
    assert task.grading.test_command.strip() in section
    assert "EOF" not in task.grading.prelude, "the hidden tests are the grader's to install"
    assert all(line in before for line in task.grading.prelude.splitlines() if line.startswith("python -m pip"))
    assert list(task.grading.fail_to_pass) == json.loads(row["FAIL_TO_PASS"])


@pytest.mark.parametrize("place", PLANS)
def test_our_own_plan_applies_patches_whole(place: str) -> None:
    task = first_task(place)
    recipe = get_recipe(task.family)
    assert task.family == PLANS[place]["family"]
    assert [rung.tolerant for rung in recipe.ladder] == [False] * len(recipe.ladder)
    assert not any("--reject" in rung.command or "|| true" in rung.command for rung in recipe.ladder)


def test_the_extension_reads_a_file_that_does_not_come_through_the_log() -> None:
    task = first_task("nemo_gym/swe_env_pr/example.jsonl")
    assert task.grading.test_command == 'python -m pytest -rA -q --junitxml="$SWE_SDK_REPORTS/output.xml"'
    assert task.grading.result_files == ("output.xml",)


def test_pro_tests_come_from_the_test_patch_and_not_from_the_future() -> None:
    task = first_task("nemo_gym/swebench_pro/example.jsonl")
    assert "git checkout" not in task.grading.prelude
    installed = [file.paths[0] for file in task.grading.test_patch.files]
    assert installed == [b"test/database/keys.js", b"test/user/emails.js"]


def test_an_agent_never_gets_the_tests_in_an_r2e_image() -> None:
    environment = first_task("nemo_gym/r2e_gym/example.jsonl").environment
    assert isinstance(environment, ImageEnvironment)
    assert {"/r2e_tests", "/root/r2e_tests", "/testbed/r2e_tests", "/run_tests.sh"} <= set(environment.hidden)


def test_rows_of_nemo_gym_are_unwrapped() -> None:
    legacy = first_task("nemo_gym/swe_agents_legacy/example.jsonl")
    wrapped = first_task("nemo_gym/anyswe_agent/example.jsonl")
    plain = first_task("nemo_gym/swebench/example.jsonl")
    assert legacy.instance_id == wrapped.instance_id == plain.instance_id == "astropy__astropy-12907"
    assert legacy.grading == wrapped.grading == plain.grading


@pytest.mark.parametrize(
    ("place", "family"),
    [
        ("swe-rebench/v2_sample.jsonl", "swe-rebench"),
        ("swe-bench-pro/rows.jsonl", "nv-internal-1"),
        ("nemo_gym/swe_rebench/example.jsonl", "swe-rebench"),
        ("nemo_gym/r2e_gym/example.jsonl", "r2e-gym"),
        ("nemo_gym/swebench_pro/example.jsonl", "nv-internal-1"),
        ("nemo_gym/swe_env_pr/example.jsonl", "swe-bench-ext"),
        ("nemo_gym/swe_agents_legacy/example.jsonl", "swe-bench"),
        ("nemo_gym/anyswe_agent/example.jsonl", "swe-bench"),
        ("nemo_gym/mini_swe_agent_2/example.jsonl", "swe-bench"),
        ("nemo_gym/swebench/example.jsonl", "swe-bench"),
        ("nemo_gym/swe_env_pr/example_rollouts.jsonl", "swe-bench-ext"),
        (CLASSIC, "swe-bench"),
        ("swe-bench/verified_v5.jsonl", "swe-bench"),
        ("swe-bench/multimodal_v5.jsonl", "swe-bench"),
        ("swe-bench/marked_v5_js.jsonl", "swe-bench"),
    ],
)
def test_every_real_row_loads_and_its_family_is_detected(place: str, family: str) -> None:
    path = shared_dir() / "datasets" / "rows" / place
    tasks = load_tasks(path)
    assert len(tasks) == len(Path(path).read_text("utf-8").splitlines())
    assert {task.family for task in tasks} == {family}
    assert not any("never be resolved" in warning for warning in tasks.warnings)


def test_pro_rows_without_their_scripts_are_masked_not_scored() -> None:
    tasks = load_tasks(shared_dir() / "datasets" / "rows" / "swe-bench-pro" / "rows.jsonl")
    assert "3 of 3 tasks with a log parser that is not known here will be masked" in " ".join(tasks.warnings)


def rollouts(server: str) -> list[dict[str, Any]]:
    return shared_rows(f"rows/nemo_gym/{server}/example_rollouts.trimmed.jsonl")


def test_recorded_results_of_pro_runs_are_read() -> None:
    """What the parsing scripts of NeMo Gym's own runs wrote, cut to forty tests: too few to resolve anything."""
    task = first_task("nemo_gym/swebench_pro/example.jsonl")
    recipe = get_recipe(task.family)
    assert isinstance(recipe, ReadsResults)
    recorded = [rollout["test_results"] for rollout in rollouts("swebench_pro")]
    assert len(recorded) == 2
    for results in recorded:
        statuses = recipe.parse_results(task, "", {"output.json": json.dumps(results).encode()})
        assert statuses == {test["name"]: test["status"] for test in results["tests"]}
        assert not recipe.judge(task, statuses, 0).resolved


def test_recorded_verdicts_of_rebench_runs_follow_from_their_statuses() -> None:
    tasks = load_tasks(shared_dir() / "datasets" / "rows" / "nemo_gym" / "swe_rebench" / "example.jsonl")
    judged = 0
    for rollout in rollouts("swe_rebench"):
        task, results = tasks[rollout["instance_id"]], rollout["test_results"]
        groups = [results.get(name, {}) for name in ("FAIL_TO_PASS", "PASS_TO_PASS")]
        statuses = {name: "PASSED" for group in groups for name in group.get("success", ())}
        statuses |= {name: "FAILED" for group in groups for name in group.get("failure", ())}
        if {*task.grading.fail_to_pass, *task.grading.pass_to_pass} <= set(statuses):
            assert get_recipe(task.family).judge(task, statuses, 0).resolved == rollout["resolved"]
            judged += 1
        output = get_recipe(task.family).parse(task, rollout["test_output"])
        agree = {name: status == "PASSED" for name, status in output.items() if name in statuses}
        said = {name: statuses[name] == "PASSED" for name in agree}
        hanging = [name for name in agree if agree[name] != said[name]]
        assert len(hanging) <= 1, "the recorded output is cut: at most one test is under way at its end"
        judged += len(agree)
    assert judged
