"""Whatever keeps the future of a repository, scrubbing removes it, and verifying finds it where that was not done."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from subprocess import run

import pytest

from swe_sdk.errors import BuildFailed
from swe_sdk.model.environment import GitSource, SourceEnvironment
from swe_sdk.sandbox import history
from swe_sdk.sandbox.contract import Box, SandboxSpec
from swe_sdk.sandbox.environments import prepare
from swe_sdk.sandbox.providers.local.provider import LocalProvider

pytestmark = pytest.mark.anyio

WORKDIR = "/testbed"
MAKE = r"""
set -e
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b HOME=/tmp/home
git init -q -b main .
git config gc.auto 0
echo one > file; git add -A; git commit -q -m one; git tag -a -m release v1
echo two > file; git add -A; git commit -q -m two; base=$(git rev-parse HEAD)
git tag now; git branch old HEAD~
echo the fix > secret; git add -A; git commit -q -m three; future=$(git rev-parse HEAD)
git reset -q --hard HEAD~
forget() { rm -rf .git/logs .git/ORIG_HEAD; }
"""
"""A repository whose base has a past (a tag of it) and a future, which only the reflog and ORIG_HEAD still name."""

STATES = {
    "branch": "git branch later $future; forget",
    "packed references": "git branch later $future; git tag later2 $future; git pack-refs --all; git gc -q; forget",
    "remote": "git clone -q --mirror . /tmp/origin; git -C /tmp/origin branch -f main $future;"
    " git remote add origin /tmp/origin; git fetch -q origin; forget",
    "reference of a removed remote": "git update-ref refs/remotes/origin/main $future; forget",
    "tag": "git tag later $future; forget",
    "annotated tag": "git tag -a -m later later $future; forget",
    "tag of a tree": "git tag later $future^{tree}; forget",
    "reflog": "rm .git/ORIG_HEAD",
    "reflog of a deleted branch": "git checkout -q -b x $future; git checkout -q main; git branch -q -D x",
    "pack that is kept": "git branch later $future; git repack -q -a -d; git branch -q -D later;"
    " for p in .git/objects/pack/*.pack; do touch ${p%.pack}.keep; done; forget",
    "alternates": "cp -r .git/objects /tmp/store; git branch x; forget; git gc -q --prune=now;"
    " echo /tmp/store > .git/objects/info/alternates",
    "objects are a link": "mv .git/objects /tmp/objects; ln -s /tmp/objects .git/objects; forget",
    "stash": "echo the fix > secret; git add -A; git stash -q; forget",
    "notes": "git notes add -m 'the fix' $base; git notes add -m 'x' $future; forget",
    "replaced": "git replace $base $future; forget",
    "graft": "echo $base $future > .git/info/grafts; forget",
    "loose objects": "forget",
    "worktree": "git worktree add -q --detach /tmp/tree $future; forget",
    "index": "git read-tree $future; forget",
    "unfinished merge": "rm -rf .git/logs; echo $future > .git/MERGE_HEAD; mv .git/ORIG_HEAD .git/FETCH_HEAD",
    "unusual reference": "git update-ref refs/original/heads/main $future; forget",
    "bundle": "git branch later $future; git bundle create -q .git/later.bundle later; git branch -q -D later; forget",
    "commit graph": "git branch later $future; git commit-graph write --reachable; git branch -q -D later; forget",
    "detached": "git checkout -q --detach; git tag later $future",
    "several packs": "git repack -q -a -d; git branch later $future; git repack -q; git branch -q -D later; forget",
    "shallow": "git branch -q -D old; git tag -d v1 > /dev/null; forget; echo $base > .git/shallow",
    "hostile configuration": "printf '[core]\n\tfsmonitor = touch /tmp/evil\n\thooksPath = .git/hooks\n[gc]\n"
    "\trecentObjectsHook = touch /tmp/evil\n[pack]\n\tpackSizeLimit = 1\n[alias]\n\treset = !touch /tmp/evil\n"
    '[remote "a.b c"]\n\turl = x\n[include]\n\tpath = /tmp/other\n\' >> .git/config;'
    " printf '[remote \"hidden\"]\n\turl = /tmp/x\n' > /tmp/other; printf '#!/bin/sh\ntouch /tmp/evil\n'"
    " > .git/hooks/post-index-change; chmod 755 .git/hooks/post-index-change",
}
EVERYTHING = [
    "branch", "remote", "annotated tag", "stash", "notes", "replaced", "graft", "worktree", "bundle",
    "packed references", "pack that is kept", "unusual reference",
]  # fmt: skip
COMBINATIONS = {
    "everything": EVERYTHING,
    "kept pack and alternates": ["alternates", "pack that is kept"],
    "replaced and grafted": ["graft", "replaced", "tag"],
    "stash in a kept pack of a removed remote": ["stash", "reference of a removed remote", "pack that is kept"],
}
CASES = {name: [name] for name in STATES} | COMBINATIONS
QUIET = "git -c core.fsmonitor=false -c core.hooksPath=/dev/null"


@pytest.fixture
async def box(local_provider: LocalProvider) -> AsyncIterator[Box]:
    box = await local_provider.create(SandboxSpec(workdir=WORKDIR))
    yield box
    await box.close()


async def shell(box: Box, script: str) -> str:
    done = await box.exec(["sh", "-c", script], cwd=WORKDIR, env={"HOME": "/tmp/home"})
    assert done.ok, (script[-200:], done.stdout, done.stderr)
    return done.stdout.strip()


async def make(box: Box, names: list[str]) -> tuple[str, str, str]:
    """The repository in some states; its base, its future and the blob of the fix."""
    states = "\n".join(STATES[name].replace(" later", f" later{i}") for i, name in enumerate(names))
    await box.exec(["mkdir", "-p", WORKDIR], cwd="/")
    made = await shell(box, f"{MAKE}blob=$(git rev-parse $future:secret)\n{states}\necho; echo $base $future $blob")
    base, future, blob = made.splitlines()[-1].split()
    return base, future, blob


async def can_read(box: Box, *objects: str) -> bool:
    """Whether git finds any of the objects, replaced or not."""
    found = [await box.exec(["git", "cat-file", "-e", name], cwd=WORKDIR) for name in objects]
    return any(each.ok for each in found)


@pytest.mark.parametrize("name", CASES)
async def test_the_future_is_gone(box: Box, name: str) -> None:
    base, future, blob = await make(box, CASES[name])
    assert await can_read(box, future, blob)
    assert await history.verify(box, WORKDIR, base) != ()
    before = await shell(box, "git --no-replace-objects rev-parse HEAD; find . -name .git -prune -o -type f -print")

    await history.scrub(box, WORKDIR, base)

    assert not await can_read(box, future, blob)
    assert await history.verify(box, WORKDIR, base) == ()
    assert await shell(box, "git rev-parse HEAD; find . -name .git -prune -o -type f -print") == before
    assert await shell(box, "git log --all --format=%s") == ("two" if name == "shallow" else "two\none")
    assert "now" in await shell(box, "git tag")
    clean = f"git remote; {QUIET} status --porcelain --untracked-files=no; {QUIET} fsck --strict 2>&1"
    assert await shell(box, clean) == ""
    assert not (await box.exec("ls /tmp/evil /tmp/history-*")).ok, "hostile configuration ran, or something was left"


async def test_the_past_stays_usable(box: Box) -> None:
    """Tags of the past tell packages their version; the branch goes on from the base."""
    base, _, _ = await make(box, EVERYTHING)
    await history.scrub(box, WORKDIR, base)
    assert await shell(box, "git describe HEAD~ && git branch --show-current") == "v1\nmain"
    commit = "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m four && git diff --stat HEAD~2"
    assert "file" in await shell(box, commit)


@pytest.mark.parametrize("step", [name for name in history.STEPS if name != "place"])
async def test_a_step_left_out_is_noticed(box: Box, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    base, _, _ = await make(box, [*EVERYTHING, "index"])
    monkeypatch.delitem(history.STEPS, step)
    with pytest.raises(BuildFailed) as caught:
        await history.scrub(box, WORKDIR, base)
    assert caught.value.output


@pytest.mark.parametrize("place", ["a linked worktree", "a git file", "a link", "no repository", "no such commit"])
async def test_what_cannot_be_made_clean_is_an_error(box: Box, place: str) -> None:
    base, _, _ = await make(box, ["branch"])
    move = {
        "a linked worktree": "git worktree add -q --detach /tmp/w && rm -rf .git && mv /tmp/w/.git .git",
        "a git file": "mv .git /tmp/elsewhere && echo 'gitdir: /tmp/elsewhere' > .git",
        "a link": "mv .git /tmp/elsewhere && ln -s /tmp/elsewhere .git",
        "no repository": "rm -rf .git",
        "no such commit": "true",
    }
    await shell(box, move[place])
    with pytest.raises(BuildFailed, match=r"scrub the history"):
        await history.scrub(box, WORKDIR, "0" * 40 if place == "no such commit" else base)


async def test_built_environments_have_no_future(local_provider: LocalProvider, tmp_path: Path) -> None:
    """Whatever the installation, which has a network, left in the repository."""
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "x"]):
        run([*git, *command], cwd=tmp_path, check=True)
    fetch = "git tag now && git commit -q --allow-empty -m later && git tag later && git reset -q --hard HEAD~"
    source = GitSource(url=str(tmp_path), commit="HEAD")
    prepared = await prepare(local_provider, SourceEnvironment(source=source, install=(fetch,)))
    box = await local_provider.create(prepared.spec())
    try:
        assert await history.verify(box, WORKDIR, prepared.base_commit) == ()
        assert await shell(box, "git log --all --format=%s; git tag") == "x\nnow"
    finally:
        await box.close()
