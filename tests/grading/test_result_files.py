"""Results files come out of the box by themselves, whatever a box makes of its folder."""

from __future__ import annotations

import io
import tarfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swe_sdk.grading.result_files import folder, read_result_files, shell_lines, unpacked
from swe_sdk.grading.verify import grade
from swe_sdk.model.patch import Patch
from swe_sdk.recipes import registry
from swe_sdk.recipes.contract import Rung
from swe_sdk.recipes.swe_bench_ext import SweBenchExtRecipe
from tests.grading.tiny import GOLD, UNAPPLIABLE, WRONG, change, make_task

pytestmark = pytest.mark.anyio


async def test_files_are_read_by_pattern_and_only_regular_ones(git):
    await git.run(
        f"{shell_lines(git)} cd $SWE_SDK_REPORTS && echo a > a.xml && echo b > b.json && mkdir d.xml"
        " && echo c > d.xml/c.xml && ln -s /etc/passwd link.xml && mkfifo pipe.xml && truncate -s 200M sparse.xml; true"
    )
    assert await read_result_files(git, ["*.xml"]) in ({"a.xml": b"a\n"}, {}), "a huge file may cost the others"
    await git.run(f"rm {folder(git)}/sparse.xml")
    assert await read_result_files(git, ["*.xml"]) == {"a.xml": b"a\n"}
    assert await read_result_files(git, ["b.json", "nothing"]) == {"b.json": b"b\n"}
    await git.run(f"rm -rf {folder(git)} && ln -s /etc {folder(git)}")
    assert await read_result_files(git, ["*"]) == {}
    await git.run(f"rm -rf {folder(git)}")
    assert await read_result_files(git, ["*"]) == {}


def archive(**files: bytes) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return made.getvalue()


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=2000), st.integers(0, 3000))
def test_no_archive_makes_the_reader_raise(noise, at):
    whole = archive(a=b"x" * 700, b=noise)
    for data in (noise, whole[:at], whole[:at] + noise + whole[at:]):
        assert all(isinstance(content, bytes) for content in unpacked(data, ["*"]).values())
    assert unpacked(whole, ["a"]) == {"a": b"x" * 700}


# -- how patches are applied, by the rules of a family -----------------------------------------------------------


class Tolerant(SweBenchExtRecipe):
    """Reads lines of a shell script; applies patches as the reference does."""

    family = "tolerant"
    version = "1"

    def parse(self, task, section):
        return dict(
            reversed(line.split(" ", 1)) for line in section.splitlines() if line.startswith(("PASSED", "FAILED"))
        )

    def judge(self, task, statuses, exit_code):
        return SweBenchExtRecipe().judge(task, statuses, exit_code)


@pytest.fixture
def families(monkeypatch):
    monkeypatch.setitem(registry._BUILTIN, "tolerant", lambda: Tolerant("legacy"))
    monkeypatch.setitem(registry._BUILTIN, "strict", lambda: Strict())
    registry.get_recipe.cache_clear()
    yield
    registry.get_recipe.cache_clear()


class Strict(Tolerant):
    family = "strict"

    @property
    def ladder(self):
        return SweBenchExtRecipe().ladder

    @property
    def test_rung(self) -> Rung:
        return SweBenchExtRecipe().test_rung


HALF = GOLD + change("tests/check.sh", "runs", "walks").replace(b"runs", b"flies")
"""One file's patch applies, the other's does not."""


async def test_half_of_a_patch_is_graded_by_the_reference_and_refused_by_us(families, provider, task):
    tolerant = task.model_copy(update={"family": "tolerant"})
    outcome = await grade(tolerant, HALF, provider=provider)
    assert (outcome.status, outcome.patch.applied, outcome.patch.rung) == ("resolved", True, "git-apply-reject")
    assert outcome.evidence["apply"][0]["exit_code"] == 1
    strict = task.model_copy(update={"family": "strict"})
    outcome = await grade(strict, HALF, provider=provider)
    assert (outcome.status, outcome.patch.applied) == ("unresolved", False)
    assert (await grade(strict, GOLD, provider=provider)).resolved
    assert (await grade(strict, WRONG, provider=provider)).status == "unresolved"
    assert (await grade(tolerant, UNAPPLIABLE, provider=provider)).status == "unresolved"


async def test_a_test_patch_that_fails_masks_by_our_rules_alone(families, provider, tmp_path):
    """SW-16: the reference ignores it, and calls resolved what the old tests call so."""
    broken = Patch.of(UNAPPLIABLE.replace(b"src.txt", b"tests/other.txt"))
    task = make_task(tmp_path / "other", test_patch=broken, fail_to_pass=("check::runs",), pass_to_pass=())
    strict = await grade(task.model_copy(update={"family": "strict"}), GOLD, provider=provider, retries=0)
    assert strict.mask is not None
    assert strict.mask.kind == "test_patch_failed"
    assert (await grade(task.model_copy(update={"family": "tolerant"}), GOLD, provider=provider)).resolved


async def test_context_that_differs_in_white_space_applies_by_the_second_rung(families, provider, task):
    patch = GOLD.replace(b" line 5\n", b" line   5\n").replace(b" line 4\n", b" line  4\n")
    outcome = await grade(task.model_copy(update={"family": "strict"}), patch, provider=provider)
    assert (outcome.status, outcome.patch.rung) == ("resolved", "git-apply-whitespace"), outcome.evidence["apply"]
