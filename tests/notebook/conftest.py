"""For tests that draw, and for those that look at pages in a browser."""

from __future__ import annotations

import importlib
import os
import shutil
from collections.abc import Iterator
from typing import Any

import matplotlib as mpl
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from swe_sdk.runs.run import Run
from tests.notebook import made_run as made
from tests.shared import lacking


@pytest.fixture(scope="module")
def as_it_ships() -> Iterator[None]:
    with mpl.rc_context(dict(mpl.rcParamsDefault) | {"backend": "agg"}):
        yield


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    with Run(made.write_run(tmp_path_factory.mktemp("made") / "run")) as run:
        yield run


@pytest.fixture
def ax() -> Axes:
    return Figure(figsize=(8, 5), layout="constrained").add_subplot()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A Chromium that is installed here, driven by playwright."""
    try:
        playwright = importlib.import_module("playwright.sync_api")
    except ImportError:
        lacking("playwright is not installed")
    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        lacking("chromium is not installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()
