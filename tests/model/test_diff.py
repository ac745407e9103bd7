"""The files of a diff, against git's own opinion of them, and against whatever is no diff at all."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from swe_sdk.model.diff import PatchedFile, patched_files
from tests.leaks import memory_folder
from tests.trees import CONTENTS, EditableTree, edits, trees

GIT = ("git", "-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "gc.auto=0", "-c", "core.protectNTFS=false")


def git(repository: Path, *arguments: str) -> bytes:
    return subprocess.run([*GIT, "-C", str(repository), *arguments], check=True, capture_output=True).stdout


@pytest.fixture(scope="module")
def repository() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="swe_sdk-tests-", dir=memory_folder()))
    git(folder, "init", "-q")
    yield folder
    shutil.rmtree(folder)


def name_status(output: bytes) -> list[PatchedFile]:
    """What ``git diff --name-status -z`` says, as our records."""
    fields = iter(output.split(b"\0")[:-1])
    found = []
    for status in fields:
        first = next(fields)
        match status[:1]:
            case b"A":
                found.append(PatchedFile(None, first))
            case b"D":
                found.append(PatchedFile(first, None))
            case b"R" | b"C":
                found.append(PatchedFile(first, next(fields)))
            case b"T":  # a change of type is shown as a deletion and a creation
                found += [PatchedFile(first, None), PatchedFile(None, first)]
            case _:
                found.append(PatchedFile(first, first))
    return found


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=trees(), changes=edits())
def test_names_are_those_that_git_says(repository: Path, before: dict[bytes, bytes], changes: list[object]) -> None:
    tree = EditableTree(repository)
    tree.clear()
    tree.write_all(before)
    git(repository, "add", "-A", "-f")
    base = git(repository, "write-tree").decode().strip()
    tree.apply(changes)
    git(repository, "add", "-A", "-f")
    for options in (["--no-renames"], ["-M50%", "-C"], ["-M", "--no-prefix", "--src-prefix=a/", "--dst-prefix=b/"]):
        diff = git(repository, "diff", "--cached", "--binary", *options, base)
        names = name_status(git(repository, "diff", "--cached", "--name-status", "-z", *options, base))
        assert sorted(patched_files(diff), key=repr) == sorted(set(names), key=repr)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("plain", "renamed"),
        ("with space", "with  two"),
        ("a b/x", "b/a b/x"),
        ("tab\tnewline\n", 'quote"back\\slash'),
        ("ünïcode", "日本 語"),
        (b"latin-\xe9".decode("utf-8", "surrogateescape"), "trailing "),
        ("dev/null", "a/dev/null"),
    ],
)
def test_a_rename_without_edit_has_names_only_in_its_header(repository: Path, old: str, new: str) -> None:
    tree = EditableTree(repository)
    tree.clear()
    tree.write_all({old.encode("utf-8", "surrogateescape"): b"content\n" * 9})
    git(repository, "add", "-A")
    base = git(repository, "write-tree").decode().strip()
    tree.rename(old.encode("utf-8", "surrogateescape"), new.encode("utf-8", "surrogateescape"))
    git(repository, "add", "-A")
    (file,) = patched_files(git(repository, "diff", "--cached", "-M", base))
    assert file == PatchedFile(old.encode("utf-8", "surrogateescape"), new.encode("utf-8", "surrogateescape"))
    assert file.paths == (file.old, file.new)


def test_a_body_that_looks_like_a_diff_is_no_file() -> None:
    """A patch of a test that holds a patch: its lines are counted by the hunk's header."""
    body = b"diff --git a/inner b/inner\n--- a/inner\n+++ b/inner\n@@ -1 +1 @@\n-a\n+b\n"
    added = b"".join(b"+" + line + b"\n" for line in body.splitlines())
    removed = b"".join(b"-" + line + b"\n" for line in body.splitlines())
    diff = b"diff --git a/outer b/outer\n--- a/outer\n+++ b/outer\n@@ -1,6 +1,6 @@\n" + removed + added
    assert patched_files(diff) == (PatchedFile(b"outer", b"outer"),)


def test_a_hunk_that_claims_more_than_there_is_hides_nothing_before_it() -> None:
    diff = b"--- a/x\n+++ b/x\n@@ -1,999999 +1,999999 @@\n context\n"
    assert patched_files(diff) == (PatchedFile(b"x", b"x"),)


@pytest.mark.parametrize(
    ("diff", "files"),
    [
        (b"--- a/x\t2020-01-01 00:00:00\n+++ b/x\t2020-01-02\n@@ -1 +1 @@\n-a\n+b\n", [PatchedFile(b"x", b"x")]),
        (b"--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+b\n", [PatchedFile(None, b"x")]),
        (b"--- a/x\r\n+++ b/x\r\n@@ -1 +1 @@\r\n-a\r\n+b\r\n", [PatchedFile(b"x", b"x")]),
        (b"diff --git a/x b/x\nold mode 100644\nnew mode 100755\n", [PatchedFile(b"x", b"x")]),
        (b"diff --git a/x b/x\r\nnew file mode 100644\r\nindex 0..1\r\n", [PatchedFile(None, b"x")]),
        (b"diff --git a/x b/x\nBinary files a/x and b/x differ\n", [PatchedFile(b"x", b"x")]),
        (b'diff --git "a/\\303\\251" "b/\\303\\251"\n', [PatchedFile(b"\xc3\xa9", b"\xc3\xa9")]),
        (b"no diff at all\n--- only half a header\n", []),
        (b"", []),
    ],
)
def test_unusual_headers(diff: bytes, files: list[PatchedFile]) -> None:
    assert list(patched_files(diff)) == files


LINES = st.sampled_from(
    [
        b"diff --git a/x b/x",
        b"diff --git ",
        b"diff --git a/x",
        b'diff --git "a/x b/x',
        b"--- a/x",
        b"--- ",
        b"+++ b/x",
        b'+++ "',
        b'--- "\\',
        b"@@ -1,9 +1 @@",
        b"@@ -1," + b"9" * 5000 + b" +1 @@",
        b"@@ ",
        b"rename from ",
        b'rename to "\\777"',
        b"copy from x",
        b"new file mode ",
        b"GIT binary patch",
        b"\\ No newline at end of file",
        b"",
        b" ",
        b"\r",
    ]
)


@given(st.lists(LINES | st.binary(max_size=20) | CONTENTS, max_size=30).map(b"\n".join))
@example(b"--- a/x\n+++ b/x\n@@ -1," + b"9" * 5000 + b" +1 @@\n")
@settings(max_examples=300)
def test_it_never_raises(diff: bytes) -> None:
    for file in patched_files(diff):
        assert file.old is not None or file.new is not None
        assert all(isinstance(path, bytes) for path in file.paths)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "line", [b'diff --git a/x "', b"diff --git a/ b/ ", b'diff --git "\\" ', b"--- ", b"@@ -1 +1 @@ "]
)
def test_a_megabyte_of_one_malformed_line_is_quick(line: bytes) -> None:
    patched_files(line * (1_000_000 // len(line)))
    patched_files((line + b"\n") * (1_000_000 // len(line)))
