"""A gallery of every repr: run as a notebook, and photographed in light and dark, as HTML and in JupyterLab.

``python scripts/screenshot_reprs.py OUT [--jupyter /path/to/jupyter]`` needs nbconvert, playwright and a Chromium
(``--chromium``). JupyterLab may live in any environment; it only shows what is already run. Nothing asks another host.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from nbconvert import HTMLExporter
from nbconvert.preprocessors import ExecutePreprocessor
from nbformat.sign import NotebookNotary
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

_ROOT = Path(__file__).resolve().parents[1]
_CELL_TIMEOUT_S = 300
_START_CAP_S = 60
_WIDTH, _HEIGHT, _TALL = 1280, 1000, 16_000
_THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}
_START = """
import tempfile
import swe_sdk as swe
from swe_sdk.agents.scripted import Exec, Fail, Wait

folder = tempfile.mkdtemp()
tasks = swe.load_tasks("mini")
task = tasks["mini__calc-1"]
"""
_CELLS = (
    ("This machine", "swe.doctor()"),
    ("Tasks", "tasks", "task"),
    ("A sandbox", "box = swe.Sandbox(task).start(); box", "box.exec('python -m pytest -q; exit 3')"),
    ("", "box.exec('echo fine')", "snapshot = box.snapshot(); snapshot"),
    ("A patch", "task.grading.gold_patch", "box.close(); box"),
    ("Outcomes", "swe.grade(task, task.grading.gold_patch)", "swe.grade(task, task.grading.wrong_patch)"),
    ("A mask", "swe.grade(tasks['mini__pathglob-1'], '', provider=swe.testing.FakeProvider())"),
    ("Many", "outcomes = swe.grade_many(tasks[:5], 'wrong'); outcomes", "swe.validate(tasks[:3], n=1)"),
    ("", "swe.regrade(outcomes.path, tasks)", "swe.Budget(total_s=1800, spent_s=700, parked_s=120)"),
    (
        "A run",
        "pairs = [(Exec(command=f'echo {n} >> notes.txt'), Wait(seconds=0.4)) for n in range(6)]\n"
        "steps = tuple(each for pair in pairs for each in pair)\n"
        "agent = swe.agents.ScriptedAgent(actions=(*steps, Exec(command='ls -la'), Fail(reason='step_limit')))\n"
        "run = swe.run(tasks[:3], agent, budget='10m', samples=2, checkpoint_every=0.8, path=f'{folder}/run'); run",
        "rollout = run.rollouts['mini__calc-1.0']; rollout",
        "rollout.steps[0]",
        "rollout.log('test.log')",
    ),
    (
        "Two runs",
        "better = swe.run(tasks[:3], 'gold', samples=2, path=f'{folder}/better', progress=False)\n"
        "swe.compare(run, better)",
    ),
    ("Checkpoints", "run.checkpoints", "run.checkpoints[0]", "run.snapshots"),
    (
        "A call of a model",
        "with swe.testing.ScriptedModel([swe.testing.say('I give up.')], title=None) as model:\n"
        "    endpoint = swe.ModelEndpoint(base_url=model.url, model=model.model)\n"
        "    agent = swe.agents.MiniSweAgent()\n"
        "    asked = swe.run([task], agent, model=endpoint, path=f'{folder}/asked', progress=False)\n"
        "asked.rollouts['mini__calc-1.0'].model_calls[0]",
    ),
    ("Progress", "swe.grade_many(tasks[:5], 'gold'); None"),
)


def main() -> None:
    """Write the notebook, the pages and the pictures."""
    options = _options()
    out: Path = options.out.absolute()
    (out / "data").mkdir(parents=True, exist_ok=True)
    notebook = _executed()
    nbformat.write(notebook, out / "gallery.ipynb")
    NotebookNotary(data_dir=str(out / "data")).sign(notebook)  # else JupyterLab throws the style sheets away
    with _browser(options.chromium) as browser:
        for theme in _THEMES:
            page = out / f"nbconvert-{theme}.html"
            page.write_text(HTMLExporter(theme=theme).from_notebook_node(notebook)[0], encoding="utf-8")
            _photograph(browser, page.as_uri(), out / f"nbconvert-{theme}.png")
            if options.jupyter:
                with _jupyterlab(options.jupyter, out, theme) as address:
                    _photograph_lab(browser, address, out / f"jupyterlab-{theme}.png")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--jupyter", help="the program of an environment with JupyterLab")
    parser.add_argument("--chromium", default=shutil.which("chromium") or "chromium")
    return parser.parse_args()


def _executed() -> Any:
    cells = [new_code_cell(_START)]
    for title, *codes in _CELLS:
        cells += [new_markdown_cell(f"## {title}")] if title else []
        cells += map(new_code_cell, codes)
    for number, cell in enumerate(cells):
        cell.id = f"cell-{number}"
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = new_notebook(cells=cells, metadata={"kernelspec": kernel})
    ExecutePreprocessor(timeout=_CELL_TIMEOUT_S).preprocess(notebook, {"metadata": {"path": str(_ROOT)}})
    return notebook


@contextlib.contextmanager
def _browser(chromium: str) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


def _photograph(browser: Any, address: str, picture: Path) -> None:
    page = browser.new_page(viewport={"width": _WIDTH, "height": _HEIGHT})
    page.route("http*://**", lambda route: route.abort())  # MathJax and the like
    page.goto(address)
    page.screenshot(path=picture, full_page=True)
    page.close()
    print(picture)


def _photograph_lab(browser: Any, address: str, picture: Path) -> None:
    page = browser.new_page(viewport={"width": _WIDTH, "height": _TALL})
    page.goto(address)
    page.locator(".jp-Notebook .swe").last.wait_for(timeout=_START_CAP_S * 1000)
    page.wait_for_timeout(2000)  # until the theme is painted
    page.screenshot(path=picture)
    page.close()
    print(picture)


@contextlib.contextmanager
def _jupyterlab(jupyter: str, folder: Path, theme: str) -> Iterator[str]:
    """A server on this machine's loopback that shows the gallery in a theme; ended with the block."""
    settings = folder / f"settings-{theme}"
    themes = settings / "@jupyterlab" / "apputils-extension" / "themes.jupyterlab-settings"
    whole = settings / "@jupyterlab" / "notebook-extension" / "tracker.jupyterlab-settings"
    for file, value in ((themes, {"theme": _THEMES[theme]}), (whole, {"windowingMode": "none"})):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(value))
    port, token = _free_port(), "gallery"
    options = [f"--ServerApp.root_dir={folder}", f"--port={port}", f"--IdentityProvider.token={token}", "--no-browser"]
    env = {
        **os.environ,
        "JUPYTER_DATA_DIR": str(folder / "data"),
        "JUPYTERLAB_SETTINGS_DIR": str(settings),
        "JUPYTERLAB_WORKSPACES_DIR": str(folder / "workspaces"),
    }
    log = (folder / f"jupyterlab-{theme}.log").open("wb")
    server = subprocess.Popen([jupyter, "lab", "--allow-root", *options], env=env, stdout=log, stderr=log)
    try:
        _wait_for(f"http://127.0.0.1:{port}/api?token={token}")
        yield f"http://127.0.0.1:{port}/lab/workspaces/{theme}/tree/gallery.ipynb?token={token}&reset"
    finally:
        server.terminate()
        server.wait(_START_CAP_S)
        log.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_for(address: str) -> None:
    deadline = time.monotonic() + _START_CAP_S
    while True:
        try:
            urllib.request.urlopen(address, timeout=5).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.3)


if __name__ == "__main__":
    main()
