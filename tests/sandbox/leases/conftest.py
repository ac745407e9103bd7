from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from swe_sdk.sandbox.leases import LeaseBook
from tests.sandbox.leases.engines import DirectoryEngine
from tests.sandbox.leases.programs import Start, starting


@pytest.fixture
def book(tmp_path: Path) -> LeaseBook:
    """The book of the programs that ``start`` starts."""
    return LeaseBook(tmp_path / "book")


@pytest.fixture
def engine(tmp_path: Path) -> DirectoryEngine:
    """Their engine."""
    return DirectoryEngine(str(tmp_path / "engine"))


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a program: ``start("...")``."""
    with starting(tmp_path) as start:
        yield start
