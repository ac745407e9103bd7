"""The colours and signs that everything shown shares."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

import swe_sdk
from swe_sdk.grading.health import HealthStatus
from swe_sdk.metrics.comparison import Change
from swe_sdk.model.outcome import Status, TestStatus
from swe_sdk.model.policy import FailureKind, Stage
from swe_sdk.notebook import palette
from swe_sdk.notebook.palette import PAGES, Style, Theme
from swe_sdk.runs.checkpoints.view import Status as CheckpointStatus
from swe_sdk.store.events import RolloutStage, RunEnded
from swe_sdk.store.rows import RolloutStatus, SnapshotRow, SnapshotState

TABLES: dict[str, Mapping[str, Style]] = {
    name: table
    for name, table in vars(palette).items()
    if name.isupper() and isinstance(table, dict) and all(isinstance(style, Style) for style in table.values())
}
STYLES = [(f"{name}.{word}", style) for name, table in TABLES.items() for word, style in table.items()]
THEMES: tuple[Theme, ...] = get_args(Theme)


def linear(colour: str) -> np.ndarray:
    """Red, green and blue light of a colour of sRGB."""
    part = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """WCAG 2: (lighter + 0.05) / (darker + 0.05), of relative luminances."""
    dark, light = sorted(float(linear(each) @ [0.2126, 0.7152, 0.0722]) for each in (one, other))
    return (light + 0.05) / (dark + 0.05)


# Machado, Oliveira and Fernandes (2009), severity 1.0, on linear light.
EYES = {
    "usual": np.eye(3),
    "protan": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deutan": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritan": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def lab(colour: str, eyes: str) -> np.ndarray:
    xyz = TO_XYZ @ np.clip(EYES[eyes] @ linear(colour), 0, 1) / [0.9505, 1.0, 1.089]
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def distance(one: str, other: str, eyes: str) -> float:
    """CIE 1976 colour difference; about 2 can just be seen side by side."""
    return float(np.linalg.norm(lab(one, eyes) - lab(other, eyes)))


def test_the_measure_itself() -> None:
    assert contrast("#000000", "#FFFFFF") == pytest.approx(21)
    assert contrast("#777777", "#FFFFFF") == pytest.approx(4.48, abs=0.01)
    assert distance("#FF0000", "#FF0000", "deutan") == 0
    # a red and a green of equal lightness: far apart, but not for everybody
    assert distance("#D9650A", "#8A8A00", "usual") > 50 > 30 > distance("#D9650A", "#8A8A00", "deutan")


@pytest.mark.parametrize("theme", THEMES)
def test_fills_and_words_stand_out_from_the_page(theme: Theme) -> None:
    page = {"light": "#FFFFFF", "dark": "#111111"}[theme]
    assert PAGES[theme].background == page
    assert {
        name: round(contrast(s.fill(theme), page), 2) for name, s in STYLES if contrast(s.fill(theme), page) < 3
    } == {}
    assert {name: contrast(s.text(theme), page) for name, s in STYLES if contrast(s.text(theme), page) < 4.5} == {}
    assert contrast(PAGES[theme].foreground, page) >= 7
    assert contrast(PAGES[theme].muted, page) >= 4.5


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize(
    "table", ["STATUS", "BUDGET", "STAGE", "SNAPSHOT", "CHECKPOINT", "HEALTH", "TEST", "MASK_GROUP"]
)
def test_colours_of_a_table_are_told_apart_by_every_eye(table: str, theme: Theme) -> None:
    near = {
        (a, b, eyes): round(distance(one.fill(theme), other.fill(theme), eyes))
        for (a, one), (b, other) in itertools.combinations(TABLES[table].items(), 2)
        for eyes in EYES
        if distance(one.fill(theme), other.fill(theme), eyes) < 18
    }
    assert near == {}


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("STATUS", RolloutStatus),
        ("VERDICT", Status),
        ("STAGE", RolloutStage),
        ("MASK_STAGE", Stage),
        ("MASK_KIND", FailureKind),
        ("HEALTH", HealthStatus),
        ("TEST", TestStatus),
    ],
)
def test_every_word_of_the_model_has_its_style_and_no_other(table: str, words: object) -> None:
    assert set(TABLES[table]) == set(get_args(words))


def test_words_of_checkpoints() -> None:
    assert set(palette.CHECKPOINT) >= set(get_args(CheckpointStatus)) | {"saving"}
    assert list(palette.STAGE) == list(get_args(RolloutStage))


def test_every_kind_of_mask_has_one_group() -> None:
    kinds = [kind for group in palette._KINDS_BY_GROUP.values() for kind in group]
    assert len(kinds) == len(set(kinds))
    assert set(palette._KINDS_BY_GROUP) == set(palette.MASK_GROUP)


def test_every_time_of_a_grade_has_its_colour() -> None:
    sources = "".join(path.read_text() for path in (Path(swe_sdk.__file__).parent / "grading").glob("*.py"))
    timed = set(re.findall(r'trace\.step\("(\w+)"', sources))
    assert timed <= set(palette.TIMING)
    assert set(palette.TIMING) - set(get_args(Stage)) == set(palette._PARTS_OF_STAGES) <= timed
    assert [name for name in palette.MASK_STAGE if name in palette.TIMING] == [
        name for name in palette.TIMING if name in palette.MASK_STAGE
    ]


def test_no_mask_has_the_colour_of_success() -> None:
    good = {palette.STATUS["resolved"].fill(theme) for theme in THEMES}
    assert {word for word, style in palette.MASK_GROUP.items() if {style.light, style.dark} & good} == set()


def test_words_of_snapshots_and_runs() -> None:
    assert set(palette.SNAPSHOT) == set(get_args(SnapshotState))
    assert set(palette.CHANGE) == set(get_args(Change))
    ends = get_args(RunEnded.model_fields["reason"].annotation)
    assert set(palette.RUN) == {*ends, "running", "killed"}


def test_the_state_of_a_snapshot_and_its_trouble_are_one() -> None:
    words = {None: ("kept", "released"), "leak": ("leaked",), "violation": ("violated",)}
    for released, needed in itertools.product((1.0, None), (("c",), ())):
        row = SnapshotRow(run="r", snapshot_id="s", released_at=released, kept_by=needed)
        assert row.state in words[row.trouble]
        assert row.trouble is not None or (row.state == "released") == (released is not None)


def test_signs_are_one_character_that_pictures_can_show() -> None:
    from matplotlib import font_manager
    from matplotlib.ft2font import FT2Font

    drawn = FT2Font(font_manager.findfont("DejaVu Sans")).get_charmap()
    assert {name: style.glyph for name, style in STYLES if ord(style.glyph) not in drawn} == {}
    assert all(style.label for _, style in STYLES)


def test_unknown_words_are_shown_as_they_are() -> None:
    assert palette.style_of(palette.STATUS, "resolved") is palette.STATUS["resolved"]
    assert palette.style_of(palette.STATUS, "paused").label == "paused"
    assert palette.style_of(palette.MASK_KIND, None) is palette.UNKNOWN


def test_it_is_light() -> None:
    import subprocess
    import sys

    program = "import sys, swe_sdk.notebook.palette; print({'pandas', 'matplotlib', 'pydantic'} & set(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert shown.stdout == "set()\n"
