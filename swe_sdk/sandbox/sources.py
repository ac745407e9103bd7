"""Sources as archives, made on the host by trusted tools: no code of the source runs here."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import stat
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from anyio import from_thread

from swe_sdk.errors import BuildFailed, InputError, MissingTool
from swe_sdk.model.environment import DirectorySource, GitSource, SdistSource, Source

_FULL_SHA = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_GIT_TIMEOUT_S = 1800
_POLL_S = 0.1
_OF_ANOTHER_REPOSITORY = frozenset(
    f"GIT_{name}"
    for name in (
        "ALTERNATE_OBJECT_DIRECTORIES",
        "COMMON_DIR",
        "DIR",
        "INDEX_FILE",
        "NAMESPACE",
        "OBJECT_DIRECTORY",
        "PREFIX",
        "QUARANTINE_PATH",
        "SHALLOW_FILE",
        "WORK_TREE",
    )
)
"""Set where a hook of git's runs us: they would turn our commands on the hook's repository."""
_SKIPPED = frozenset({".git", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".venv", "node_modules"})


def fingerprint(source: Source) -> list[str]:
    """What identifies a source's content. Blocks: reads a directory whole, asks a repository for a branch or tag."""
    match source:
        case SdistSource():
            return ["sdist", source.name, source.version, source.sha256]
        case GitSource():
            return ["git", resolve_commit(source)]
        case DirectorySource():
            with _readable(source):
                return ["directory", _digest(Path(source.path))]


def resolve_commit(source: GitSource) -> str:
    """The full id of the commit; branches, tags and short ids are looked up."""
    if _FULL_SHA.fullmatch(source.commit):
        return source.commit
    found: str | None
    if Path(source.url).is_dir():
        done = _git("-C", source.url, "rev-parse", "--verify", "--end-of-options", f"{source.commit}^{{commit}}")
        found = done.stdout.strip()
    else:
        found = _remote_commit(source.url, source.commit)
    if not found:
        raise InputError(f"no commit {source.commit!r} in {source.url}", remedy="name a tag, a branch or a full id")
    return found


def _remote_commit(url: str, name: str) -> str | None:
    """What a tag or branch of a repository elsewhere stands for; a tag's own object is followed to its commit."""
    done = _git("ls-remote", "--", url, name, f"{name}^{{}}")
    _must("git ls-remote", done)
    listed = {reference: commit for commit, reference in (line.split("\t", 1) for line in done.stdout.splitlines())}
    # It also lists what merely ends in the name, such as the branch old/main for main. The order is git's own.
    places = [f"{place}{name}" for place in ("", "refs/", "refs/tags/", "refs/heads/")]
    return next((listed[each] for place in places for each in (f"{place}^{{}}", place) if each in listed), None)


def pack_directory(source: DirectorySource, archive: Path) -> None:
    """A tar of a directory's files, without version control and caches."""
    with _readable(source), tarfile.open(archive, "w") as tar:
        for path in _walk(Path(source.path)):
            tar.add(path, arcname=str(path.relative_to(source.path)), recursive=False)


@contextmanager
def _readable(source: DirectorySource) -> Iterator[None]:
    try:
        yield
    except PermissionError as error:
        raise InputError(f"the directory {source.path} cannot be read: {error}") from error


def pack_commit(url: str, commit: str, archive: Path) -> None:
    """A tar of a bare repository that holds one commit, without its history."""
    with tempfile.TemporaryDirectory(prefix="swe_sdk-git-") as directory:
        bare = str(Path(directory) / "repository")
        _must("git init", _git("init", "-q", "--bare", "--template=", bare))
        # A server may refuse single commits by id; a local one is told to allow them.
        upload_pack = "git -c safe.directory=* -c uploadpack.allowAnySHA1InWant=true upload-pack"
        fetch = ["-C", bare, "fetch", "-q", "--no-tags", f"--upload-pack={upload_pack}"]
        address = Path(url).absolute().as_uri() if Path(url).is_dir() else url
        if _git(*fetch, "--depth=1", "--", address, commit).returncode:
            _fetch_by_branches(fetch, bare, address, commit)
        _must("git update-ref", _git("-C", bare, "update-ref", "refs/heads/main", commit))
        Path(bare, "FETCH_HEAD").unlink()  # it names the repository that this one is from
        with tarfile.open(archive, "w") as tar:
            tar.add(bare, arcname=".")


def _fetch_by_branches(fetch: list[str], bare: str, address: str, commit: str) -> None:
    """Where one commit cannot be asked for: fetch all into a second repository, and from there the one commit."""
    with tempfile.TemporaryDirectory(prefix="swe_sdk-git-") as directory:
        _must("git init", _git("init", "-q", "--bare", "--template=", directory))
        everything = ["-C", directory, "fetch", "-q", "--", address, "+refs/*:refs/*"]
        _must("git fetch", _git(*everything))
        if _git("-C", directory, "cat-file", "-e", f"{commit}^{{commit}}").returncode:
            raise InputError(f"no commit {commit} in {address}", remedy="no branch or tag of it leads there")
        _must("git fetch", _git(*fetch, "--depth=1", "--", Path(directory).as_uri(), commit))


def _git(*arguments: str) -> subprocess.CompletedProcess[str]:
    settings = ["-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0", "-c", "safe.directory=*"]
    inherited = {name: value for name, value in os.environ.items() if name not in _OF_ANOTHER_REPOSITORY}
    env = {**inherited, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C.UTF-8"}
    command = ["git", *settings, *arguments]
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            errors="replace", env=env, start_new_session=True,
        )  # fmt: skip
    except FileNotFoundError:
        raise MissingTool("git") from None
    with process:
        try:
            output, errors = _outputs(process, f"git {arguments[0]}")
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)  # and the helpers that it waits for
            raise
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def _outputs(process: subprocess.Popen[str], step: str) -> tuple[str, str]:
    """What it printed; raises when it takes too long, or the task that waits for this thread is cancelled."""
    deadline = time.monotonic() + _GIT_TIMEOUT_S
    while True:
        try:
            return process.communicate(timeout=_POLL_S)
        except subprocess.TimeoutExpired:
            if time.monotonic() > deadline:
                raise BuildFailed(step, f"no end after {_GIT_TIMEOUT_S} s") from None
        with suppress(RuntimeError):  # there is no task
            from_thread.check_cancelled()


def _must(step: str, done: subprocess.CompletedProcess[str]) -> None:
    if done.returncode:
        raise BuildFailed(step, done.stderr, remedy="is the repository reachable, and the commit in it?")


def _walk(root: Path) -> list[Path]:
    """Every file, link and directory below ``root`` in a fixed order, but for version control and caches."""
    if not root.is_dir():
        raise InputError(f"no directory {root}")
    found: list[Path] = []
    for directory, names, files in os.walk(root, onerror=_raise):
        names[:] = sorted(name for name in names if name not in _SKIPPED)
        found += [Path(directory, name) for name in (*names, *files) if name not in _SKIPPED]
    return sorted(path for path in found if _is_plain(path))


def _raise(error: OSError) -> None:
    raise error


def _is_plain(path: Path) -> bool:
    mode = path.lstat().st_mode
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)


def _digest(root: Path) -> str:
    total = hashlib.sha256()
    for path in _walk(root):
        info = path.lstat()
        if stat.S_ISLNK(info.st_mode):
            content = os.fsencode(path.readlink())
        else:
            content = b"" if stat.S_ISDIR(info.st_mode) else path.read_bytes()
        kind = f"{stat.S_IFMT(info.st_mode)}{info.st_mode & 0o111:o}"
        name = os.fsencode(path.relative_to(root))
        total.update(b"%d %b %d %b " % (len(name), name, len(content), kind.encode()) + content)
    return total.hexdigest()
