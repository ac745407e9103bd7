"""A stand-in for an upstream evaluator: applies the prediction, installs and runs the row's tests, writes a report.

Set ``mode`` in a file beside it to misbehave: ``silent`` (no report), ``garbage``, ``other`` (another instance).
"""

import argparse
import json
import pathlib
import subprocess
import sys

parser = argparse.ArgumentParser()
for name in ("--predictions_path", "--timeout"):
    parser.add_argument(name, required=True)
for names in (("--instance_ids", "--instance_id"), ("--dataset_name", "--dataset"), ("--split",), ("--run_id",)):
    parser.add_argument(*names, dest=names[0][2:])
parser.add_argument("--output_dir")
given = parser.parse_args()


def rows(path):
    return {row["instance_id"]: row for row in map(json.loads, open(path, encoding="utf-8"))}


def applied(patch):
    return not patch or subprocess.run(["git", "apply", "-"], input=patch.encode(), cwd="/testbed").returncode == 0


row = rows(given.dataset_name)[given.instance_ids]
prediction = rows(given.predictions_path)[given.instance_ids]
resolved = applied(prediction["model_patch"]) and applied(row["test_patch"])
command = row.get("test_command") or "bash run_tests.sh"
resolved = resolved and subprocess.run(command, shell=True, cwd="/testbed").returncode == 0
print("(stand-in)", given.instance_ids, resolved)

mode_file = pathlib.Path(__file__).with_name("mode")
mode = mode_file.read_text().strip() if mode_file.exists() else ""
folder = pathlib.Path(given.output_dir or f"logs/run_evaluation/{given.run_id}/model/{given.instance_ids}")
folder.mkdir(parents=True, exist_ok=True)
name = "somebody__else-1" if mode == "other" else given.instance_ids
text = "{" if mode == "garbage" else json.dumps({name: {"resolved": bool(resolved), "patch_exists": True}})
if mode != "silent":
    (folder / "report.json").write_text(text)
sys.exit(0)
