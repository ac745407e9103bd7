"""The page on the threat model names each attack, and each of its walls; and nothing that there is not."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.escape.suite import FOLDER, attacks

PAGE = (FOLDER.parents[1] / "docs/threat_model.md").read_text("utf-8")


def rows(heading: str) -> Iterator[list[str]]:
    """The cells of the table below a heading, without its first two lines."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    for line in lines[2:]:
        yield [cell.strip() for cell in line.strip("|").split("|")]


def test_the_table_names_each_attack_once_by_its_topic() -> None:
    told = [(test.strip("`"), topic) for topic, _attack, _wall, test in rows("Attacks")]
    assert sorted(told) == sorted(attacks().items())


def test_each_attack_is_kept_off_by_walls_that_are_explained_and_each_wall_keeps_some_off() -> None:
    explained = {name.strip("`") for name, _what in rows("Walls")}
    used = [re.findall(r"`(\w+)`", walls) for _topic, _attack, walls, _test in rows("Attacks")]
    assert all(used)
    assert {wall for walls in used for wall in walls} == explained


def test_there_are_at_least_as_many_attacks_as_were_asked_for() -> None:
    assert len(attacks()) >= 45
