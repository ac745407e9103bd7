"""Sources as archives: what is packed, what is not, and what counts as a change."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings

from swe_sdk.errors import BuildFailed, InputError, SweError
from swe_sdk.model.environment import DirectorySource, GitSource, SdistSource
from swe_sdk.sandbox.sources import fingerprint, pack_commit, pack_directory, resolve_commit
from tests.trees import EditableTree, edits, trees

AUTHOR = ("-c", "user.name=t", "-c", "user.email=t@localhost")


def git(repository: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *AUTHOR, "-C", str(repository), *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def unpack(archive: Path, into: Path) -> Path:
    """As a box does it: with GNU tar."""
    into.mkdir()
    subprocess.run(["tar", "--no-same-owner", "-xf", archive, "-C", into], check=True)
    return into


def listing(root: Path) -> dict[bytes, tuple[str, int, bytes]]:
    """Every path below a directory: kind, permission bits, and content."""
    found = {}
    for directory, folders, files in os.walk(os.fsencode(root)):
        for name in (*folders, *files):
            full = os.path.join(directory, name)
            mode = os.lstat(full).st_mode & 0o777
            path = os.path.relpath(full, os.fsencode(root))
            if os.path.islink(full):
                found[path] = ("link", 0, os.readlink(full))
            elif os.path.isdir(full):
                found[path] = ("directory", mode, b"")
            elif os.path.isfile(full):
                found[path] = ("file", mode, Path(os.fsdecode(full)).read_bytes())
    return found


# -- directories ------------------------------------------------------------------------------------------------------


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    root = tmp_path / "source"
    for folder in ("pkg/empty", "pkg/.git/objects", ".git", "pkg/__pycache__", ".venv/bin", "node_modules/x"):
        (root / folder).mkdir(parents=True)
    for name, content in {
        b"pkg/run.sh": b"#!/bin/sh\n",
        b"latin-\xe9\xff": b"\xff",
        "日本/ü".encode(): b"x",
        b"new\nline": b"",
        b" spaces ": b"",
        b"-dash": b"",
        b"back\\slash": b"",
        b"x" * 200: b"a long name",
        b".git/HEAD": b"ref",
        b"pkg/__pycache__/x.pyc": b"old",
        b".venv/bin/python": b"",
        b"node_modules/x/index.js": b"",
    }.items():
        full = os.path.join(os.fsencode(root), name)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        Path(os.fsdecode(full)).write_bytes(content)
    (root / "pkg/run.sh").chmod(0o755)
    (root / "read-only").write_bytes(b"r")
    (root / "read-only").chmod(0o444)
    (root / "link").symlink_to("pkg/run.sh")
    (root / "dangling").symlink_to("/nowhere/at all")
    (root / "to-directory").symlink_to("pkg")
    (root / "hard").hardlink_to(root / "pkg/run.sh")
    os.mkfifo(root / "fifo")
    return root


def test_a_directory_is_packed_as_it_is_but_for_version_control_and_caches(directory: Path, tmp_path: Path) -> None:
    pack_directory(DirectorySource(path=str(directory)), tmp_path / "a.tar")
    skipped = (b".git", b"pkg/.git", b"pkg/__pycache__", b".venv", b"node_modules")
    expected = {
        path: each
        for path, each in listing(directory).items()
        if not any(path == skip or path.startswith(skip + b"/") for skip in skipped)
    }
    assert listing(unpack(tmp_path / "a.tar", tmp_path / "out")) == expected
    assert (tmp_path / "out/pkg/empty").is_dir()
    assert len(expected) > 12


def test_packing_a_tree_twice_gives_the_same_fingerprint(directory: Path, tmp_path: Path) -> None:
    source = DirectorySource(path=str(directory))
    pack_directory(source, tmp_path / "a.tar")
    again = unpack(tmp_path / "a.tar", tmp_path / "out")
    assert fingerprint(DirectorySource(path=str(again))) == fingerprint(source)


def test_times_and_what_is_not_packed_do_not_change_a_fingerprint(directory: Path) -> None:
    source = DirectorySource(path=str(directory))
    before = fingerprint(source)
    os.utime(directory / "pkg/run.sh", (1, 1))
    (directory / ".git/HEAD").write_bytes(b"another")
    (directory / "pkg/__pycache__/y.pyc").write_bytes(b"new")
    (directory / "read-only").chmod(0o400)  # git knows just the one bit: executable or not
    assert fingerprint(source) == before


CHANGES: dict[str, Callable[[Path], object]] = {
    "content": lambda root: (root / "pkg/run.sh").write_bytes(b"#!/bin/bash\n"),
    "mode": lambda root: (root / "pkg/run.sh").chmod(0o644),
    "name": lambda root: (root / "pkg/run.sh").rename(root / "pkg/go.sh"),
    "another directory": lambda root: (root / "read-only").rename(root / "pkg/read-only"),
    "a new file": lambda root: (root / "new").write_bytes(b""),
    "a new empty directory": lambda root: (root / "new").mkdir(),
    "a deleted file": lambda root: (root / "read-only").unlink(),
    "the target of a link": lambda root: ((root / "link").unlink(), (root / "link").symlink_to("pkg")),
    "a link for its content": lambda root: ((root / "read-only").unlink(), (root / "read-only").symlink_to("r")),
    "bytes moved from one file to the next": lambda root: (
        (root / " spaces ").write_bytes(b"x"),
        (root / "hard").unlink(),
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_content_names_modes_and_links_change_a_fingerprint(directory: Path, change: Callable[[Path], object]) -> None:
    source = DirectorySource(path=str(directory))
    before = fingerprint(source)
    change(directory)
    assert fingerprint(source) != before


@settings(max_examples=40, deadline=None)
@given(before=trees(), changes=edits())
def test_equal_fingerprints_are_equal_trees(
    tmp_path_factory: pytest.TempPathFactory, before: dict[bytes, bytes], changes: list[object]
) -> None:
    root = tmp_path_factory.mktemp("tree")
    source, tree = DirectorySource(path=str(root)), EditableTree(root)
    tree.write_all(before)
    old = (fingerprint(source), listing(root))
    tree.apply(changes)
    new = (fingerprint(source), listing(root))
    assert (old[0] == new[0]) == (old[1] == new[1])
    shutil.rmtree(root)


@pytest.mark.parametrize("path", ["missing", "file"])
def test_what_is_no_directory_is_bad_input(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").write_text("")
    source = DirectorySource(path=str(tmp_path / path))
    with pytest.raises(InputError, match=path):
        fingerprint(source)
    with pytest.raises(InputError, match=path):
        pack_directory(source, tmp_path / "a.tar")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_cannot_be_read_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "closed").write_text("")
    (tmp_path / "closed").chmod(0)
    with pytest.raises(InputError, match="closed"):
        fingerprint(DirectorySource(path=str(tmp_path)))


def test_an_sdist_is_known_by_its_pins() -> None:
    source = SdistSource(name="x", version="1", sha256="0" * 64)
    assert fingerprint(source) == ["sdist", "x", "1", "0" * 64]


# -- repositories -----------------------------------------------------------------------------------------------------


class Repository:
    """Three commits on main, a tag on the second, a branch whose name ends like another's."""

    def __init__(self, root: Path) -> None:
        self.path = root
        git(root.parent, "init", "-q", "-b", "main", str(root))
        self.commits = []
        for number in (1, 2, 3):
            (root / "file").write_text(f"version {number}\n")
            (root / f"secret-of-{number}").write_text(f"only in {number}\n")
            git(root, "add", "-A")
            git(root, "commit", "-q", "-m", f"commit {number}")
            self.commits.append(git(root, "rev-parse", "HEAD"))
        git(root, "tag", "-a", "-m", "two", "v2", self.commits[1])
        git(root, "branch", "zz/main", self.commits[0])
        git(root, "branch", "first", self.commits[0])
        git(root, "tag", "light", self.commits[0])

    def objects_after(self, commit: str) -> set[str]:
        """Objects that no history up to ``commit`` has."""
        later = git(self.path, "rev-list", "--objects", "--all", "--not", commit)
        return {line.split()[0] for line in later.splitlines()}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return Repository(tmp_path_factory.mktemp("a repository with % and spaces") / "re#po")


@pytest.fixture(params=["a path", "a file URL"])
def url(request: pytest.FixtureRequest, repository: Repository) -> str:
    return str(repository.path) if request.param == "a path" else repository.path.as_uri()


@pytest.mark.parametrize(("name", "number"), [("v2", 2), ("first", 1), ("light", 1), ("main", 3), ("zz/main", 1)])
def test_tags_and_branches_are_looked_up(repository: Repository, url: str, name: str, number: int) -> None:
    assert resolve_commit(GitSource(url=url, commit=name)) == repository.commits[number - 1]


@pytest.mark.parametrize("name", ["refs/heads/first", "refs/tags/light", "heads/first", "tags/light"])
def test_whole_names_of_references_work_too(repository: Repository, url: str, name: str) -> None:
    assert resolve_commit(GitSource(url=url, commit=name)) == repository.commits[0]


def test_short_ids_are_looked_up_where_there_is_a_repository_to_look_in(repository: Repository) -> None:
    for commit in repository.commits:
        assert resolve_commit(GitSource(url=str(repository.path), commit=commit[:9])) == commit


@pytest.mark.parametrize("name", ["no-such-branch", "deadbeef", "--help", "", "main:file", "v2^{tree}", "main~9"])
def test_a_name_that_is_no_commit_is_bad_input(url: str, name: str) -> None:
    with pytest.raises(InputError, match="commit"):
        resolve_commit(GitSource(url=url, commit=name))


def test_a_repository_that_is_not_there_says_so(tmp_path: Path) -> None:
    for url in (str(tmp_path), str(tmp_path / "missing"), (tmp_path / "missing").as_uri()):
        with pytest.raises(SweError, match=str(tmp_path)):
            fingerprint(GitSource(url=url, commit="main"))


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_pack_has_the_one_commit_and_nothing_later(
    repository: Repository, url: str, tmp_path: Path, number: int
) -> None:
    commit = repository.commits[number - 1]
    pack_commit(url, commit, tmp_path / "a.tar")
    bare = unpack(tmp_path / "a.tar", tmp_path / "out")
    assert git(bare, "rev-list", "--all") == commit
    assert git(bare, "rev-parse", "refs/heads/main") == commit
    assert git(bare, "show", f"{commit}:file") == f"version {number}"
    assert git(bare, "remote") == ""
    everything = git(bare, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)").split()
    assert commit in everything
    assert not set(everything) & repository.objects_after(commit)
    assert not list(bare.rglob("FETCH_HEAD"))


def test_the_pack_of_a_commit_that_no_branch_reaches(repository: Repository, url: str, tmp_path: Path) -> None:
    """Datasets name commits of pull requests that were rebased."""
    tree = git(repository.path, "rev-parse", "main^{tree}")
    orphan = git(repository.path, "commit-tree", tree, "-m", "orphan")
    git(repository.path, "update-ref", "refs/pull/7/head", orphan)
    pack_commit(url, orphan, tmp_path / "a.tar")
    assert git(unpack(tmp_path / "a.tar", tmp_path / "out"), "rev-list", "--all") == orphan
    git(repository.path, "update-ref", "-d", "refs/pull/7/head")


def test_an_unknown_commit_of_a_repository_is_bad_input(repository: Repository, url: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="0123456789abcdef"):
        pack_commit(url, "0123456789abcdef0123456789abcdef01234567", tmp_path / "a.tar")
    assert not (tmp_path / "a.tar").exists()


def test_an_unreachable_repository_is_a_failed_build(tmp_path: Path) -> None:
    with pytest.raises(BuildFailed, match="git fetch") as caught:
        pack_commit((tmp_path / "missing").as_uri(), "0" * 40, tmp_path / "a.tar")
    assert "reachable" in caught.value.remedy


@pytest.fixture
def calling_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A repository one of whose hooks runs us: git tells hooks by variables which repository they are of."""
    path = tmp_path / "caller"
    git(tmp_path, "init", "-q", "-b", "main", str(path))
    git(path, "commit", "-q", "--allow-empty", "-m", "theirs")
    monkeypatch.setenv("GIT_DIR", str(path / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(path))
    monkeypatch.setenv("GIT_INDEX_FILE", str(path / ".git/index"))
    yield path
    monkeypatch.undo()


def test_the_callers_own_repository_is_left_alone(
    repository: Repository, calling_repository: Path, tmp_path: Path
) -> None:
    source = GitSource(url=str(repository.path), commit="v2")
    assert resolve_commit(source) == repository.commits[1]
    pack_commit(source.url, repository.commits[1], tmp_path / "a.tar")
    with tarfile.open(tmp_path / "a.tar") as tar:
        assert "./refs/heads/main" in tar.getnames() or "./packed-refs" in tar.getnames()
    for variable in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        del os.environ[variable]
    assert git(calling_repository, "log", "--format=%s", "main") == "theirs"
    assert git(calling_repository, "rev-list", "--all", "--count") == "1"


def test_a_repositorys_own_settings_and_hooks_run_nothing(repository: Repository, tmp_path: Path) -> None:
    hostile, proof = tmp_path / "hostile", tmp_path / "proof"
    git(tmp_path, "clone", "-q", str(repository.path), str(hostile))
    for key in ("core.fsmonitor", "core.sshCommand", "uploadpack.packObjectsHook", "core.pager", "diff.external"):
        git(hostile, "config", key, f"touch {proof}; false")
    for name in ("post-checkout", "reference-transaction", "pre-receive", "update", "post-index-change"):
        hook = hostile / ".git/hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {proof}\n")
        hook.chmod(0o755)
    commit = resolve_commit(GitSource(url=str(hostile), commit="main"))
    pack_commit(str(hostile), commit, tmp_path / "a.tar")
    assert not proof.exists()
