"""Data sets of the hub's package, Arrow files, rows of NeMo Gym and trajectories: the real loading code, local data."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sample_rows

from swe_sdk.errors import DatasetError, PredictionsError, PrerequisiteError, RowError
from swe_sdk.recipes.dataset import load_tasks
from swe_sdk.recipes.hub import from_hub
from swe_sdk.recipes.images import formatted_image
from swe_sdk.recipes.nemo_gym import family_of
from swe_sdk.recipes.predictions import load_predictions

ROOT = Path(__file__).resolve().parents[2]
ROWS: list[dict[str, Any]] = [{**sample_rows.CLASSIC, "instance_id": f"pallets__flask-{n}"} for n in range(3)]
IDS = tuple(row["instance_id"] for row in ROWS)


@pytest.fixture
def datasets(tmp_path, monkeypatch):
    package = pytest.importorskip("datasets")
    monkeypatch.setattr(package.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    return package


@pytest.mark.filterwarnings("ignore")  # of the package and its many dependencies
def test_folders_that_the_package_saved(datasets, tmp_path):
    whole = datasets.Dataset.from_list(ROWS)
    whole.save_to_disk(str(tmp_path / "whole"))
    assert load_tasks(tmp_path / "whole").ids == IDS
    datasets.DatasetDict({"train": whole.select([0]), "test": whole.select([1, 2])}).save_to_disk(
        str(tmp_path / "parts")
    )
    assert load_tasks(tmp_path / "parts").ids == IDS[1:]
    assert load_tasks(tmp_path / "parts", split="train").ids == IDS[:1]
    with pytest.raises(DatasetError, match=r"no split 'dev'.*train, test"):
        load_tasks(tmp_path / "parts", split="dev")


@pytest.mark.filterwarnings("ignore")
def test_the_splits_of_a_data_set(datasets, tmp_path):
    for name, rows in (("train", ROWS[:1]), ("test", ROWS[1:])):
        (tmp_path / "set").mkdir(exist_ok=True)
        (tmp_path / "set" / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert load_tasks(from_hub(str(tmp_path / "set"))).ids == IDS[1:]
    assert load_tasks(from_hub(str(tmp_path / "set"), "train")).ids == IDS[:1]
    with pytest.raises(DatasetError, match="cannot be loaded"):
        from_hub(str(tmp_path / "nothing"))


def test_arrow_files_in_both_forms(tmp_path):
    pa = pytest.importorskip("pyarrow")
    table = pa.Table.from_pylist([{**row, "patch": None} for row in ROWS])
    with pa.ipc.new_stream(str(tmp_path / "stream.arrow"), table.schema) as sink:
        sink.write_table(table, max_chunksize=1)
    with pa.ipc.new_file(str(tmp_path / "file.arrow"), table.schema) as sink:
        sink.write_table(table)
    for name in ("stream.arrow", "file.arrow"):
        tasks = load_tasks(tmp_path / name)
        assert tasks.ids == IDS
        assert tasks[0].grading.gold_patch is None
    (tmp_path / "cut.arrow").write_bytes((tmp_path / "file.arrow").read_bytes()[:100])
    (tmp_path / "empty.arrow").write_bytes(b"")
    for name in ("cut.arrow", "empty.arrow"):
        with pytest.raises(DatasetError) as caught:
            load_tasks(tmp_path / name)
        assert name in str(caught.value)


def test_our_own_folder_does_not_pass_for_the_package():
    """In a checkout there is a folder named datasets; without the package Python takes that for a package."""
    program = """
import importlib.machinery, sys
class OnlyOurs:
    def find_spec(self, name, path=None, target=None):
        if name == "datasets":
            return importlib.machinery.PathFinder.find_spec(name, [sys.argv[1]])
sys.meta_path.insert(0, OnlyOurs())
import datasets
assert list(datasets.__path__) == [sys.argv[1] + "/datasets"], datasets
from swe_sdk.errors import PrerequisiteError
from swe_sdk.recipes.dataset import load_tasks
try:
    load_tasks("some-org/some-set")
except PrerequisiteError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program, str(ROOT)], capture_output=True, text=True, cwd=ROOT)
    assert "pip install 'swe_sdk[hub]'" in done.stdout, done.stderr


def test_packages_that_are_missing_are_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "rows.arrow").write_bytes(b"x")
    with pytest.raises(PrerequisiteError, match=r"swe_sdk\[parquet\]"):
        load_tasks(tmp_path / "rows.arrow")


# -- rows of NeMo Gym ---------------------------------------------------------------------------------------------


def wrapped(instance: Any, **metadata: Any) -> dict[str, Any]:
    told = {"instance_id": ROWS[0]["instance_id"], "instance_dict": instance, "split": "test", **metadata}
    return {"responses_create_params": {"input": [], "metadata": told}, "agent_ref": {"name": "x"}}


def test_the_task_within_a_request_is_unwrapped():
    (plain,) = load_tasks(ROWS[:1])
    assert load_tasks([wrapped(json.dumps(ROWS[0]))])[0] == plain
    assert load_tasks([wrapped(ROWS[0], dataset_name="princeton-nlp/SWE-bench_Verified")])[0] == plain
    no_gold = {name: value for name, value in ROWS[0].items() if name != "patch"}
    gold = load_tasks([wrapped(json.dumps(no_gold), golden_patch=sample_rows.GOLD)])[0].grading.gold_patch
    assert gold is not None
    assert gold.text == sample_rows.GOLD


@pytest.mark.parametrize(("instance", "problem"), [("{", "is not JSON"), ("[1]", "holds no object"), (7, "no object")])
def test_what_is_wrong_within_a_request_is_named(instance, problem):
    with pytest.raises(RowError, match=rf"row 0.*{ROWS[0]['instance_id']}.*instance_dict.*{problem}"):
        load_tasks([wrapped(instance)])


@pytest.mark.parametrize(
    ("dataset", "family"),
    [
        ("nv-internal-1", "nv-internal-1"),
        ("swe-bench-ext", "swe-bench-ext"),
        ("nebius/SWE-rebench-V2", "swe-rebench"),
        ("R2E-Gym/R2E-Gym-Subset", "r2e-gym"),
        ("SWE-bench/SWE-bench_Multilingual", "swe-bench-multilingual"),
        ("princeton-nlp/SWE-bench_Verified", "swe-bench"),
        ("somebody/else", None),
    ],
)
def test_families_of_data_sets(dataset, family):
    assert family_of(dataset) == family


def test_images_by_formatters(tmp_path):
    """The order of NeMo Gym: by id, then with _1776_ and _s_, exactly for each formatter, then anywhere."""
    here = str(tmp_path / "sweb.eval.x86_64.{instance_id}.sif")
    assert formatted_image(["docker://swebench/sweb.eval.x86_64.{instance_id}"], "A__b-1") == (
        "swebench/sweb.eval.x86_64.a_1776_b-1"
    )
    assert formatted_image([], "A__b-1") is None
    assert formatted_image([here], "A__b-1") == str(tmp_path / "sweb.eval.x86_64.A__b-1.sif"), "so that it is named"
    for name in ("x.A__b-1.y.sif", "x.A__b-12.sif", "sweb.eval.x86_64.a_s_b-1.sif", "sweb.eval.x86_64.A_1776_b-1.sif"):
        (tmp_path / name).write_bytes(b"")
    assert formatted_image([here], "A__b-1") == str(tmp_path / "sweb.eval.x86_64.A_1776_b-1.sif")
    (tmp_path / "sweb.eval.x86_64.A_1776_b-1.sif").unlink()
    assert formatted_image(["/nowhere/{instance_id}.sif", here], "A__b-1") == str(
        tmp_path / "sweb.eval.x86_64.a_s_b-1.sif"
    )
    (tmp_path / "sweb.eval.x86_64.a_s_b-1.sif").unlink()
    assert formatted_image([here], "A__b-1") == str(tmp_path / "x.A__b-1.y.sif")
    (tmp_path / "pillow_final_abc.sif").write_bytes(b"")
    assert formatted_image([str(tmp_path / "{instance_id}.sif")], "org__Pillow-abc") == str(
        tmp_path / "pillow_final_abc.sif"
    )


# -- trajectories -------------------------------------------------------------------------------------------------


def test_patches_of_trajectories(tmp_path):
    tasks = load_tasks(ROWS)
    lines = [
        {"instance_id": IDS[0], "test_result": {"git_patch": sample_rows.GOLD}, "history": [{"any": "thing"}]},
        {"instance_id": IDS[1], "test_result": {"git_patch": None}},
        {"instance_id": IDS[2], "info": {"submission": sample_rows.GOLD, "exit_status": "Submitted"}},
    ]
    (tmp_path / "output.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = load_predictions(tmp_path / "output.jsonl", tasks)
    assert [found[name].exists for name in IDS] == [True, False, True]
    assert found[IDS[0]].text == sample_rows.GOLD
    broken = {"instance_id": IDS[0], "test_result": {}, "error": "AgentStuckInLoop"}
    (tmp_path / "output.jsonl").write_text(json.dumps(broken) + "\n")
    with pytest.raises(PredictionsError, match=rf"output.jsonl:1 \({IDS[0]}\).*no model_patch.*AgentStuckInLoop"):
        load_predictions(tmp_path / "output.jsonl", tasks)
