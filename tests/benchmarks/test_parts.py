"""The parts of the benchmarks: rows and targets, the report, the meters, the stopwatch."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from benchmarks import report
from benchmarks.__main__ import run_one
from benchmarks.bubblewrap import Bubblewrap
from benchmarks.contest import Contender, Series, contest, cpu_row, wall_row
from benchmarks.lab import open_lab
from benchmarks.meter import Meter, TreeMeter, open_meter
from benchmarks.rows import Row, Section, Target, Unavailable
from benchmarks.settings import FULL, QUICK
from benchmarks.stopwatch import Stopwatch, compile_limit
from tests.shared import need_program

_BURN_S = 0.3
_BURN = f"""
import subprocess, sys, time
if len(sys.argv) > 1:
    subprocess.run([sys.executable, "-c", sys.argv[1]], check=True)
else:
    while time.process_time() < {_BURN_S}: pass
"""


def test_a_target_judges_the_ratio_or_else_the_value() -> None:
    assert Row("a", 9.0, "ms", target=Target(10)).met is True
    assert Row("a", 9.0, "ms", ratio=3.0, to="b", target=Target(2)).met is False
    assert Row("a", 9.0, "ms", ratio=3.0, to="b", target=Target(2, is_least=True)).met is True
    assert Row("a", 9.0, "ms", ratio=3.0, to="b").met is None
    assert Row("a", target=Target(2), note="not here").met is None
    assert (str(Target(4.5)), str(Target(20, is_least=True))) == ("≤ 4.5", "≥ 20")


def test_rows_compare_medians_of_wall_time_and_means_of_cpu_time() -> None:
    ours = Series("ours", [0.003, 0.001, 0.008], cpu_s=0.009)
    base = Series("base", [0.002, 0.001, 0.001], cpu_s=0.003)
    wall, cpu = wall_row(ours, base, Target(3.1)), cpu_row(ours, base)
    assert [wall.value, wall.least, wall.ratio] == pytest.approx([3, 1, 3])
    assert [cpu.value, cpu.ratio] == pytest.approx([3, 3])
    assert (wall.to, wall.met, cpu.to, cpu.least) == ("base", True, "base", None)
    unknown = cpu_row(Series("docker", [1.0], cpu_s=None), base)
    assert unknown.value is None
    assert "daemon" in unknown.note


def test_contenders_take_turns() -> None:
    calls: list[tuple[str, int]] = []

    def contender(name: str, batch: int, *, is_metered: bool = True) -> Contender:
        async def run(count: int) -> list[float]:
            calls.append((name, count))
            return [0.5] * count

        return Contender(name, run, batch, is_metered=is_metered)

    contenders = [contender("a", 3), contender("b", 1, is_metered=False)]
    series = anyio.run(contest, contenders, 2, TreeMeter())
    assert calls == [("a", 1), ("a", 3), ("b", 1), ("b", 1)] * 2
    assert len(series["a"].walls_s) == 6
    assert series["a"].cpu_s is not None
    assert series["b"].cpu_s is None


def test_table_has_three_digits_and_the_word_no_stands_out() -> None:
    rows = [Row("x", 1234.56, "ms", 0.012345, 2.0, "y", Target(1)), Row("z", note="there is no z")]
    text = report.section_markdown(Section("s", "Title", rows, (0.5, 1.25), 3.4))
    assert "### Title" in text
    assert "Load average 0.5 before and 1.2 after; 3 s." in text
    assert "| x    |  1,235 | 0.0123 | ms   |     2 | y  | ≤ 1    | **no** |" in text
    assert "- z: there is no z" in text


def test_markdown_goes_between_the_markers_of_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Before\n\n{report.BEGIN}\nold\n{report.END}\n\nafter\n")
    report.put_into(page, "new\n")
    report.put_into(page, "newer\n")
    assert page.read_text() == f"# Before\n\n{report.BEGIN}\n\nnewer\n\n{report.END}\n\nafter\n"
    report.put_into(tmp_path / "fresh.md", "text\n")
    assert (tmp_path / "fresh.md").read_text() == "text\n"


def test_the_page_of_the_docs_has_the_markers() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md").read_text("utf-8")
    assert page.index(report.BEGIN) < page.index(report.END)


def _count(meter: Meter, *arguments: str) -> float:
    before = meter.seconds()
    subprocess.run([sys.executable, "-c", _BURN, *arguments], check=True)
    return meter.seconds() - before


def test_meters_count_children_and_grandchildren() -> None:
    with open_meter() as meter:
        for one in (meter, TreeMeter()):
            assert _count(one) > _BURN_S * 0.9
            assert _count(one, _BURN) > _BURN_S * 0.9


def test_the_tree_meter_counts_what_still_lives() -> None:
    meter = TreeMeter()
    before = meter.seconds()
    program = f"import time\nwhile time.process_time() < {_BURN_S}: pass\nprint(flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert meter.seconds() - before > _BURN_S * 0.9
        process.kill()


def test_stopwatch_times_another_program(tmp_path: Path) -> None:
    need_program("cc")
    stopwatch = Stopwatch(compile_limit(tmp_path), "spawn", tmp_path, 3, "/bin/sleep", "0.05")
    assert all(0.05 <= wall_s < 5 for wall_s in anyio.run(stopwatch.run, 2))
    assert len(anyio.run(stopwatch.run, 1)) == 1
    with pytest.raises(ValueError, match="3 cycles only"):
        anyio.run(stopwatch.run, 1)
    stopwatch.close()
    stopwatch.close()


@pytest.mark.parametrize(("program", "words"), [("/bin/false", "status 0x100"), ("/nowhere", "/nowhere")])
def test_stopwatch_passes_on_the_words_of_a_failure(tmp_path: Path, program: str, words: str) -> None:
    need_program("cc")
    stopwatch = Stopwatch(compile_limit(tmp_path), "spawn", tmp_path, 1, program)
    with pytest.raises(Unavailable, match=words):
        anyio.run(stopwatch.run, 1)


def test_without_a_compiler_there_is_a_word_about_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable, match="no C compiler"):
        compile_limit(tmp_path)


def test_without_docker_there_is_a_word_about_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_lab(QUICK, tmp_path) as lab:
        assert (lab.root / "bin" / "true").exists()
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(Unavailable, match="no docker"):
            _ = lab.docker
    assert list(tmp_path.iterdir()) == []


def test_without_the_shared_data_there_is_a_row_about_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWE_SDK_SHARED", str(tmp_path))
    with open_lab(QUICK, tmp_path) as lab:
        (row,) = run_one("parsers", lab).rows
    assert row.value is None
    assert "shared data is not there" in row.note


def test_an_old_bubblewrap_gets_a_read_only_root() -> None:
    old, new = Bubblewrap("bwrap", (0, 8, 0)), Bubblewrap("bwrap", (0, 11, 0))
    assert "--ro-bind" in old.command("/root", "/bin/true")
    assert "--overlay" not in old.command("/root", "/bin/true")
    assert "too old" in old.name
    assert "--overlay" in new.command("/root", "/bin/true")
    assert "--ro-bind" not in new.command("/root", "/bin/true")


def test_the_quick_settings_are_the_smaller_ones() -> None:
    assert QUICK.rounds * QUICK.create_batch < FULL.rounds * FULL.create_batch / 10
    assert max(load.blob_bytes for load in QUICK.loads) <= max(load.blob_bytes for load in FULL.loads) / 100
    assert math.prod(QUICK.crowds) < min(FULL.crowds)
