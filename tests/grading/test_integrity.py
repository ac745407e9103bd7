"""The hidden tests stay the grader's own, whatever the submission did to their places."""

from __future__ import annotations

import pytest

from swe_sdk.errors import ResetFailed, TestPatchFailed
from swe_sdk.grading.integrity import (
    hold_tests,
    install_tests,
    put_back_tests,
    restore_test_files,
)
from swe_sdk.grading.runner_files import touched_paths
from swe_sdk.model.patch import EMPTY_PATCH, Patch
from tests.grading.tiny import CHECK, NEW_CHECK, TEST_PATCH, diff

anyio_mark = pytest.mark.anyio
HIDDEN = Patch.of(TEST_PATCH)

SABOTAGE = {
    "nothing": "true",
    "edited": "echo 'echo PASSED check::answer' > tests/check.sh",
    "deleted": "rm tests/check.sh",
    "not executable": "chmod 000 tests/check.sh",
    "a directory": "rm tests/check.sh && mkdir -p tests/check.sh/deep && echo x > tests/check.sh/deep/x",
    "a link": "rm tests/check.sh && ln -s ../src.txt tests/check.sh",
    "a dangling link": "rm tests/check.sh && ln -s /nowhere tests/check.sh",
    "a fifo": "rm tests/check.sh && mkfifo tests/check.sh",
    "parent is a link": "mv tests /tmp/elsewhere && ln -s /tmp/elsewhere tests",
    "parent is a file": "rm -r tests && echo x > tests",
    "new file is there": "echo false > tests/extra.sh",
    "new file is a directory": "mkdir -p tests/extra.sh && echo x > tests/extra.sh/x",
    "staged": "echo x > tests/check.sh && echo y > tests/extra.sh && git add -A",
}


@anyio_mark
@pytest.mark.parametrize("name", SABOTAGE)
async def test_hidden_tests_are_installed_whatever_is_in_their_place(git, name):
    await git.box.exec("echo kept > tests/other.sh; " + SABOTAGE[name])
    await restore_test_files(git, "HEAD", HIDDEN)
    assert await git.box.read("/testbed/tests/check.sh") == CHECK.encode()
    await install_tests(git, HIDDEN)
    assert await git.box.read("/testbed/tests/check.sh") == NEW_CHECK.encode()
    assert await git.box.read("/testbed/tests/extra.sh") == b"true\n"
    if "parent" not in name:
        assert await git.box.read("/testbed/tests/other.sh") == b"kept\n"


@anyio_mark
async def test_nothing_is_removed_through_a_link(git):
    """The hidden file's parent is a link to a folder elsewhere: the link goes, the folder's files stay."""
    await git.box.exec("mv tests /tmp/elsewhere && ln -s /tmp/elsewhere tests && echo mine > /tmp/elsewhere/extra.sh")
    await restore_test_files(git, "HEAD", HIDDEN)
    assert await git.box.read("/tmp/elsewhere/extra.sh") == b"mine\n"
    assert not (await git.box.exec("test -L tests")).ok


@anyio_mark
async def test_names_are_never_patterns(git):
    """Test files whose names would mean something to git, to a shell or to a terminal."""
    names = ["tests/*.sh", "tests/:(top)x.sh", "tests/-rf", "tests/a b\n c.sh", "tests/\xe9\x1b.sh", "tests/$(id).sh"]
    before = {**dict.fromkeys(names, "old\n")}
    for name in names:
        await git.box.write(f"/testbed/{name}", b"old\n")
    await git.box.exec("git add -A && git -c user.name=t -c user.email=t@t commit -qm more")
    patch = Patch.of(diff(before, dict.fromkeys(names, "new\n")))
    assert len(touched_paths(patch)) == len(names)
    for name in names:
        await git.box.write(f"/testbed/{name}", b"theirs\n")
    await git.box.exec("echo theirs > tests/check.sh")
    await restore_test_files(git, "HEAD", patch)
    assert await git.box.read("/testbed/tests/check.sh") == b"theirs\n", "*.sh was read as a pattern"
    await install_tests(git, patch)
    for name in names:
        assert await git.box.read(f"/testbed/{name}") == b"new\n"


@anyio_mark
async def test_names_outside_the_repository_are_left_alone(git):
    await git.box.exec("echo mine > /tmp/mine")
    stray = Patch.of(b"--- a/../tmp/mine\n+++ b/../tmp/mine\n@@ -1 +1 @@\n-mine\n+theirs\n")
    await restore_test_files(git, "HEAD", stray)
    with pytest.raises(TestPatchFailed, match="invalid path"):
        await install_tests(git, stray)
    assert await git.box.read("/tmp/mine") == b"mine\n"


@anyio_mark
async def test_failures_are_typed(git):
    with pytest.raises(ResetFailed, match="no-such-commit"):
        await restore_test_files(git, "no-such-commit", HIDDEN)
    with pytest.raises(TestPatchFailed, match="No valid patches"):
        await install_tests(git, Patch.of(b"garbage\n"))
    await install_tests(git, EMPTY_PATCH)


@anyio_mark
async def test_held_tests_come_back_as_they_were(git):
    """Code of the submission runs between installing and testing; what it does to the hidden tests is undone."""
    deletes = Patch.of(TEST_PATCH + diff({"gone.sh": "x\n"}, {"gone.sh": None}))
    await git.box.exec("echo x > gone.sh")
    await install_tests(git, deletes)
    await git.box.exec("chmod 755 tests/extra.sh")
    held = await hold_tests(git, deletes)
    sabotage = (
        "echo 'echo PASSED check::answer' > tests/check.sh; rm tests/extra.sh; mkdir tests/extra.sh; echo > gone.sh"
    )
    await git.box.exec(sabotage)
    await put_back_tests(git, held)
    assert await git.box.read("/testbed/tests/check.sh") == NEW_CHECK.encode()
    listing = await git.box.exec("stat -c '%a %F' tests/extra.sh; ls gone.sh")
    assert listing.stdout == "755 regular file\n"


@anyio_mark
async def test_hostile_git_configuration_is_not_obeyed(git):
    await git.box.exec(
        "mkdir hooks && printf '#!/bin/sh\\ntouch /tmp/evil\\n' > hooks/post-checkout && chmod 755 hooks/post-checkout"
        " && git config core.hooksPath hooks && git config core.fsmonitor 'touch /tmp/evil; false'"
        " && printf '[core]\\n\\tfsmonitor = touch /tmp/evil\\n' > ~/.gitconfig"
    )
    await restore_test_files(git, "HEAD", HIDDEN)
    await install_tests(git, HIDDEN)
    assert not (await git.box.exec("ls /tmp/evil")).ok
