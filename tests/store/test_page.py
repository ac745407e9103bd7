"""The page about the store says what the code does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from swe_sdk.store import events as ev
from swe_sdk.store.rows import CheckpointRow, RolloutRow
from swe_sdk.store.schema import TABLES

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "store.md").read_text("utf-8")


def test_every_event_is_in_the_table():
    rows = re.findall(r"^\| `(\w+)` \| .* \| (yes)? ?\|$", PAGE, re.MULTILINE)
    events = get_args(get_args(ev.AnyEvent)[0])
    assert dict(rows) == {event.model_fields["kind"].default: "yes" if event.durable else "" for event in events}


def test_every_table_is_explained():
    within = PAGE[PAGE.index("## The index") : PAGE.index("## On a network")]
    explained = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (.*?) \|", within, re.MULTILINE))))
    assert explained == set(re.findall(r"CREATE TABLE (\w+)", TABLES)) - {"meta", "instances"}


def test_columns_of_the_index_are_fields_of_its_rows():
    (table,) = re.findall(r"CREATE TABLE rollouts \((.*?)\);", TABLES, re.DOTALL)
    columns = set(re.findall(r"(?:^|,)\s*([a-z_0-9]+) (?:TEXT|REAL|INTEGER)", table))
    own = {"rid", "rn", "queued_provider", "queue_t", "queue_tie"}
    assert columns - own == set(RolloutRow.model_fields) - {"run"}
    assert CheckpointRow.model_fields["state"].default == "saving"
