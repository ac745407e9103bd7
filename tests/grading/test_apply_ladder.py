"""The apply ladder, in real boxes: what takes a patch, and that a failed rung leaves no trace."""

from __future__ import annotations

import pytest

from swe_sdk.grading.apply import apply_patch
from swe_sdk.model.patch import Patch
from swe_sdk.recipes.registry import get_recipe
from tests.grading.tiny import GOLD, SRC, UNAPPLIABLE, change, diff
from tests.shared import need_program

pytestmark = pytest.mark.anyio
LADDER = get_recipe("swe-bench").ladder

_STATE = r"""
git status --porcelain=v1 --ignored -uall; git rev-parse HEAD; cat .git/config; ls -A .git/hooks .git/info
find . -path ./.git -prune -o -printf '%p %y %m %l\n' | sort
find . -path ./.git -prune -o -type f -print0 | sort -z | xargs -0 sha256sum
"""


async def state(box) -> str:
    """Everything in the working tree: names, kinds, modes, link targets, contents, the index and git's own settings."""
    return (await box.exec(_STATE)).check().stdout


async def litter(box) -> None:
    """Prebuilt things that an image may hold beside the repository's own files."""
    await box.exec(
        "mkdir -p build/deep empty/inner && echo so > build/deep/lib.bin && echo u > untracked.txt && echo k > keep.bin"
        " && ln -s src.txt link && chmod 755 untracked.txt && mkdir nested && git -C nested init -q"
        " && echo n > nested/f"
    )


async def test_strict_apply_is_the_first_rung(git):
    applied = await apply_patch(git, Patch.of(GOLD), LADDER)
    assert applied.rung == "git-apply"
    assert [a["exit_code"] for a in applied.attempts] == [0]
    assert b"answer = 42" in await git.box.read("/testbed/src.txt")


async def test_fuzz_is_the_last_rung(git):
    need_program("patch")
    drifted = change("src.txt", "answer = 41", "answer = 42").replace(b" line 5\n", b" line five\n")
    drifted = drifted.replace(b"index ", b"index 1")  # no blob to merge with
    applied = await apply_patch(git, Patch.of(drifted), LADDER)
    assert applied.rung == "patch-fuzz"
    assert await git.box.read("/testbed/src.txt") == SRC.replace("41", "42").encode()
    assert [a["rung"] for a in applied.attempts][:3] == ["git-apply", "git-apply-3way", "git-apply-reject"]


async def test_three_way_merge(git):
    await git.box.exec(
        "sed -i 's/line 3/line three/' src.txt && git -c user.name=t -c user.email=t@t commit -qam drift"
    )
    applied = await apply_patch(git, Patch.of(GOLD), LADDER)
    assert applied.rung == "git-apply-3way"
    expected = SRC.replace("41", "42").replace("line 3\n", "line three\n").encode()
    assert await git.box.read("/testbed/src.txt") == expected


async def test_patch_that_is_in_the_base_already(git):
    await git.box.exec("sed -i s/41/42/ src.txt && git -c user.name=t -c user.email=t@t commit -qam gold")
    assert (await apply_patch(git, Patch.of(GOLD), LADDER)).rung == "git-apply-3way"
    without_blobs = b"".join(line for line in GOLD.splitlines(True) if not line.startswith(b"index "))
    assert (await apply_patch(git, Patch.of(without_blobs), LADDER)).rung == "already-applied"
    assert (await git.box.exec("git status --porcelain")).stdout == ""


async def test_failed_rungs_leave_the_tree_byte_equal(git):
    """Half of the patch can be applied, by every rung but the first: new files, new folders, changes, deletions."""
    await litter(git.box)
    before = await state(git.box)
    half = diff(
        {"src.txt": SRC, "tests/check.sh": "x\n"},
        {"src.txt": SRC.replace("41", "42"), "tests/check.sh": None, "new/deep/file.py": "x\n", "top.bin": "y\n"},
    )
    conflict = diff({"src.txt": SRC.replace("41", "0")}, {"src.txt": SRC.replace("41", "1")})
    overwrites = diff({}, {"untracked.txt": "theirs\n", "build/deep/lib.bin": "theirs\n", "empty/inner/f": "x\n"})
    deletes = diff({"keep.bin": "k\n"}, {"keep.bin": None})
    for data in (half + conflict, overwrites + UNAPPLIABLE, deletes + UNAPPLIABLE):
        applied = await apply_patch(git, Patch.of(data), LADDER)
        assert not applied.ok, applied
        assert await state(git.box) == before
    assert (await git.box.exec("git diff --cached --quiet && git diff --quiet")).ok


async def test_prebuilt_artifacts_survive_a_patch_that_needs_a_later_rung(git):
    need_program("patch")
    await litter(git.box)
    drifted = GOLD.replace(b" line 5\n", b" line five\n").replace(b"index ", b"index 1")
    assert (await apply_patch(git, Patch.of(drifted), LADDER)).rung == "patch-fuzz"
    kept = await git.box.exec("cat build/deep/lib.bin untracked.txt keep.bin nested/f && test -d empty/inner")
    assert kept.stdout == "so\nu\nk\nn\n"


def hunk(path: str, old: str, new: str) -> bytes:
    return f"--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-{old}\n+{new}\n".encode()


REFUSED = {
    "garbage": b"not a patch\n",
    "white space": b"  \n\n",
    "wrong counts": GOLD.replace(b",7 @@", b",70 @@"),
    "outside": b"--- /dev/null\n+++ b/../../tmp/evil\n@@ -0,0 +1 @@\n+x\n",
    "absolute": b"--- /dev/null\n+++ b//tmp/evil\n@@ -0,0 +1 @@\n+x\n",
    "git config": hunk(".git/config", "[core]", "[core]\n+\tfsmonitor = touch /tmp/evil"),
    "git hook": b"--- /dev/null\n+++ b/.git/hooks/post-checkout\n@@ -0,0 +1 @@\n+touch /tmp/evil\n",
    "GIT hook": b"--- /dev/null\n+++ b/.GIT/hooks/post-checkout\n@@ -0,0 +1 @@\n+touch /tmp/evil\n",
    "symlink": b"--- /dev/null\n+++ b/out/evil\n@@ -0,0 +1 @@\n+x\n",
    "NUL": b"--- a/src.txt\n+++ b/src.txt\n@@ -1 +1 @@\n-\0\n+\0\0\n",
    "bad binary": b"diff --git a/b.bin b/b.bin\nnew file mode 100644\nGIT binary patch\nliteral 5\nzzzzzzzz\n",
    "many headers": b"diff --git a/x b/x\n" * 2000,
}


@pytest.mark.parametrize("name", REFUSED)
async def test_hostile_and_malformed_patches_are_refused_and_leave_nothing(git, name):
    await git.box.exec("ln -s /tmp out")
    before = await state(git.box)
    applied = await apply_patch(git, Patch.of(REFUSED[name]), LADDER)
    assert not applied.ok, applied.attempts
    assert await state(git.box) == before
    assert (await git.box.exec("ls /tmp/evil ../tmp/evil")).exit_code != 0


async def test_patch_of_git_itself_is_never_given_to_patch(git):
    """GNU patch would write into .git; git refuses to."""
    applied = await apply_patch(git, Patch.of(REFUSED["git hook"]), LADDER)
    assert {a["rung"]: a.get("skipped") for a in applied.attempts} == {
        "git-apply": None,
        "git-apply-3way": "the patch names .git/hooks/post-checkout",
        "git-apply-reject": "the patch names .git/hooks/post-checkout",
        "patch-fuzz": "the patch names .git/hooks/post-checkout",
        "already-applied": None,
    }


async def test_what_gnu_patch_lets_pass(git):
    need_program("patch")
    """As under the official harness: patch ignores what it cannot read. The tests then say what it is worth."""
    no_data = b"diff --git a/b.bin b/b.bin\nnew file mode 100644\nBinary files /dev/null and b/b.bin differ\n"
    assert (await apply_patch(git, Patch.of(no_data), LADDER)).rung == "patch-fuzz"
    assert (await apply_patch(git, Patch.of(GOLD[: len(GOLD) // 2]), LADDER)).rung == "patch-fuzz"


async def test_absolute_names_end_up_within_the_repository(git):
    applied = await apply_patch(git, Patch.of(b"--- /dev/null\n+++ /tmp/evil\n@@ -0,0 +1 @@\n+x\n"), LADDER)
    assert applied.rung == "git-apply"
    assert await git.box.read("/testbed/tmp/evil") == b"x\n"
    assert (await git.box.exec("ls /tmp/evil")).exit_code != 0


CONTENTS = {
    "crlf": (b"a\r\nb\r\n", b"a\r\nB\r\n"),
    "latin-1": ("caf\xe9\n".encode("latin-1"), "th\xe9\n".encode("latin-1")),
    "binary": (bytes(range(256)) * 8, bytes(range(255, -1, -1)) * 8),
    "no final newline": (b"a\nb", b"a\nc"),
}


@pytest.mark.parametrize("name", CONTENTS)
async def test_bytes_arrive_as_they_are(git, name):
    old, new = CONTENTS[name]
    await git.box.write("/testbed/file name.dat", old)
    await git.box.exec("git add -A && git -c user.name=t -c user.email=t@t commit -qm more")
    data = diff({"file name.dat": old}, {"file name.dat": new, "d\xe9j\xe0 vu": b"x\n"})
    applied = await apply_patch(git, Patch.of(data), LADDER)
    assert applied.rung == "git-apply", applied
    assert await git.box.read("/testbed/file name.dat") == new


async def test_huge_patches(git):
    """60 MB in one new file applies; the same behind a hunk that does not apply is refused, and all of it is undone."""
    body = b"+" + b"x" * 98 + b"\n"
    count = 600_000
    huge = b"--- /dev/null\n+++ b/huge.txt\n@@ -0,0 +1,%d @@\n" % count + body * count
    assert (await apply_patch(git, Patch.of(huge), LADDER[:1])).ok
    await git.box.exec("rm huge.txt")
    before = await state(git.box)
    applied = await apply_patch(git, Patch.of(huge + UNAPPLIABLE), LADDER)
    assert not applied.ok
    assert await state(git.box) == before
