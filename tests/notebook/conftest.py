"""For tests that draw."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib as mpl
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from swe_sdk.runs.run import Run
from tests.notebook import made_run as made


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
