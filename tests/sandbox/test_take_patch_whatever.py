"""A patch is taken whatever was done to `.git`: nobody buys a mask by `rm -rf .git`, and nothing foreign is in it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from swe_sdk.errors import PatchUnavailable, TransferFailed
from swe_sdk.model.environment import DirectorySource, SourceEnvironment
from swe_sdk.model.patch import Patch
from swe_sdk.sandbox.contract import Box
from swe_sdk.sandbox.environments import prepare
from swe_sdk.sandbox.prepared import PreparedEnvironment
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from swe_sdk.sandbox.sandbox import Sandbox
from swe_sdk.sandbox.tree import differences, take_patch, take_patch_whatever
from tests.sandbox.repositories import IDENTITY, WORKDIR, apply, patch_of, run, tree_of

pytestmark = pytest.mark.anyio

FILES = {"pkg/code.py": b"one\ntwo\n", "data.bin": bytes(range(256)), ".gitignore": b"*.log\nignored/\n"}
COMMIT = f"git add -A; git {IDENTITY} commit -q -m work"
EDIT = "echo three >> pkg/code.py; echo new > pkg/new.py; printf '\\377' >> data.bin; echo x > x.log"


@pytest.fixture(scope="module")
async def prepared(local_provider: LocalProvider, tmp_path_factory: pytest.TempPathFactory) -> PreparedEnvironment:
    root = tmp_path_factory.mktemp("project")
    for name, content in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return await prepare(local_provider, SourceEnvironment(source=DirectorySource(path=str(root))))


@pytest.fixture
async def boxes(local_provider: LocalProvider, prepared: PreparedEnvironment) -> AsyncIterator[tuple[Box, Box]]:
    agents, fresh = await local_provider.create(prepared.spec()), await local_provider.create(prepared.spec())
    yield agents, fresh
    await agents.close()
    await fresh.close()


# -- a broken repository ----------------------------------------------------------------------------------------------

BROKEN = {
    "gone": "rm -rf .git",
    "a file": "rm -rf .git; echo nothing > .git",
    "a link to nowhere": "rm -rf .git; ln -s /nonexistent .git",
    "a pipe": "rm -rf .git; mkfifo .git",
    "an empty directory": "rm -rf .git; mkdir .git",
    "without objects": "rm -rf .git/objects",
    "with empty objects": "find .git/objects -type f -exec chmod u+w {} + -exec truncate -s 0 {} +",
    "with broken packs": "git repack -q -a -d; for f in .git/objects/pack/*; do chmod u+w $f; echo x > $f; done",
    "another": f"rm -rf .git; git init -q; {COMMIT}",
    "without its base": f"git checkout -q --orphan o; {COMMIT}; git branch -D -q main; "
    "git reflog expire --expire=now --all; git gc -q --prune=now",
    "with a pipe for alternates": "mkdir -p .git/objects/info; mkfifo .git/objects/info/alternates",
}


@pytest.mark.parametrize("script", BROKEN.values(), ids=list(BROKEN))
async def test_the_work_is_taken_from_a_broken_repository(
    local_provider: LocalProvider,
    prepared: PreparedEnvironment,
    boxes: tuple[Box, Box],
    script: str,
) -> None:
    agents, fresh = boxes
    await run(fresh, EDIT)
    honest = await patch_of(fresh, prepared.base_commit)
    await run(agents, f"{EDIT}; {script}")
    patch = await take_patch_whatever(local_provider, prepared, agents, timeout_s=5)
    assert patch == honest
    assert patch.exists
    assert (await agents.exec("ls -A /tmp")).stdout == ""


async def test_a_tree_that_is_gone_is_a_patch_that_deletes_it(
    local_provider: LocalProvider, prepared: PreparedEnvironment, boxes: tuple[Box, Box]
) -> None:
    agents, fresh = boxes
    await agents.exec("rm -rf /testbed", cwd="/")
    await apply(fresh, await take_patch_whatever(local_provider, prepared, agents))
    assert await tree_of(fresh) == {}


async def test_where_nothing_helps_it_is_the_doing_of_who_worked_there(
    local_provider: LocalProvider, prepared: PreparedEnvironment, boxes: tuple[Box, Box]
) -> None:
    agents, _fresh = boxes
    await agents.exec("rm -rf /testbed; echo file > /testbed", cwd="/")
    with pytest.raises(PatchUnavailable):
        await take_patch_whatever(local_provider, prepared, agents)


async def test_a_patch_beyond_the_limit_is_none(
    local_provider: LocalProvider,
    prepared: PreparedEnvironment,
    boxes: tuple[Box, Box],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("swe_sdk.sandbox.tree.MAX_PATCH_BYTES", 100_000)
    agents, _fresh = boxes
    await run(agents, "head -c 50000 /dev/urandom > small.bin")
    assert (await take_patch_whatever(local_provider, prepared, agents)).exists
    await run(agents, "head -c 200000 /dev/urandom > large.bin")
    with pytest.raises(PatchUnavailable, match="100000 bytes"):
        await take_patch_whatever(local_provider, prepared, agents)


async def test_what_a_fresh_box_cannot_do_either_is_nobodys_doing(
    local_provider: LocalProvider, prepared: PreparedEnvironment, boxes: tuple[Box, Box]
) -> None:
    agents, _fresh = boxes
    unknown = prepared.model_copy(update={"base_commit": "1" * 40})
    with pytest.raises(TransferFailed):
        await take_patch_whatever(local_provider, unknown, agents)


async def test_the_sandbox_of_users_gives_a_patch_too(
    local_provider: LocalProvider, prepared: PreparedEnvironment
) -> None:
    async with Sandbox(prepared, provider=local_provider) as box:
        await box.exec(f"{EDIT}; rm -rf .git")
        assert [file.new for file in (await box.diff()).files] == [b"data.bin", b"pkg/code.py", b"pkg/new.py"]


# -- what is committed ------------------------------------------------------------------------------------------------

COMMITTED = {
    "on the branch": (f"{EDIT}; {COMMIT}", True),
    "and then more": (f"{EDIT}; {COMMIT}; echo later >> pkg/code.py; rm data.bin; echo y > later.py", True),
    "on another branch": (f"git checkout -q -b a/b; {EDIT}; {COMMIT}", True),
    "detached": (f"git checkout -q --detach; {EDIT}; {COMMIT}", True),
    "on an orphan": (f"git checkout -q --orphan o; {EDIT}; {COMMIT}", True),
    "in packed references": (f"{EDIT}; {COMMIT}; git pack-refs --all; git repack -q -a -d", True),
    "under a hostile configuration": (
        f"{EDIT}; {COMMIT}; mkfifo /tmp/pipe; git config include.path /tmp/pipe",
        True,
    ),
    "with a broken index": (f"{EDIT}; {COMMIT}; echo broken > .git/index; touch .git/index.lock", True),
    "nothing": (EDIT, False),
    "staged only": (f"{EDIT}; git add -A", False),
    "a head of nothing": (f"{EDIT}; {COMMIT}; git checkout -q --orphan empty", False),
    "a broken head": (f"{EDIT}; {COMMIT}; echo broken > .git/HEAD", False),
    "a head that is a loop": (f"{EDIT}; {COMMIT}; echo 'ref: refs/heads/main' > .git/refs/heads/main", False),
    "a head outside": (f"{EDIT}; {COMMIT}; echo 'ref: ../../../etc/hostname' > .git/HEAD", False),
    "a head that is gone": (f"{EDIT}; {COMMIT}; rm -rf .git", False),
}


@pytest.mark.parametrize(("script", "holds"), COMMITTED.values(), ids=list(COMMITTED))
async def test_in_committed_mode_the_head_counts(
    local_provider: LocalProvider,
    prepared: PreparedEnvironment,
    boxes: tuple[Box, Box],
    script: str,
    holds: bool,
) -> None:
    agents, fresh = boxes
    await run(fresh, EDIT)
    honest = await patch_of(fresh, prepared.base_commit)
    await run(agents, script)
    patch = await take_patch_whatever(local_provider, prepared, agents, mode="committed")
    assert patch.data == (honest.data if holds else b"")


async def test_committed_repositories_within_are_left_out(
    boxes: tuple[Box, Box], prepared: PreparedEnvironment
) -> None:
    agents, _fresh = boxes
    within = f"git init -q sub; cd sub; echo x > x; {COMMIT}; cd .."
    await run(agents, f"{within}; echo y > y.py; git add -A 2>/dev/null; git {IDENTITY} commit -q -m work")
    patch = await take_patch(agents, workdir=WORKDIR, base_commit=prepared.base_commit, mode="committed")
    assert [file.new for file in patch.files] == [b"y.py"]


# -- what was there before --------------------------------------------------------------------------------------------

DIRT = (
    "echo built > built.txt; mkdir out; echo a > out/a; echo 'b b' > $'out/b\\nb'; echo sed >> pkg/code.py; "
    f"git init -q third; echo t > third/t; (cd third; {COMMIT}); git rm -q --cached data.bin; chmod +x .gitignore"
)


async def dirty(boxes: tuple[Box, Box], prepared: PreparedEnvironment) -> bytes:
    """Both boxes as an image that nobody has tidied up; what differs in them."""
    for box in boxes:
        await run(box, DIRT)
    return await differences(boxes[1], workdir=WORKDIR, base_commit=prepared.base_commit)


WORK = {
    "nothing": ("true", []),
    "an edit of something else": ("printf x >> data.bin", [b"data.bin"]),
    "a new file beside old ones": ("echo c > out/c; echo u > third/u", [b"out/c", b"third/u"]),
    "changed old files": ("echo changed > built.txt; rm out/a", []),
    "old files added": ("git add -A 2>/dev/null", []),
    "old files committed": (f"git add -A 2>/dev/null; git {IDENTITY} commit -q -m all; echo n > n.py", [b"n.py"]),
    "a further edit of an edited file": ("echo more >> pkg/code.py", [b"pkg/code.py"]),
    "an edited file restored": ("git checkout -q pkg/code.py", []),
}


@pytest.mark.parametrize(("script", "touched"), WORK.values(), ids=list(WORK))
async def test_what_was_there_before_is_no_part_of_the_patch(
    boxes: tuple[Box, Box], prepared: PreparedEnvironment, script: str, touched: list[bytes]
) -> None:
    before = await dirty(boxes, prepared)
    await run(boxes[0], script)
    patch = await take_patch(boxes[0], workdir=WORKDIR, base_commit=prepared.base_commit, before=before)
    assert [file.new for file in patch.files] == touched


async def test_what_was_there_before_is_no_part_of_what_is_committed(
    boxes: tuple[Box, Box], prepared: PreparedEnvironment
) -> None:
    before = await dirty(boxes, prepared)
    await run(boxes[0], f"echo n > n.py; git add -A 2>/dev/null; git {IDENTITY} commit -q -m all")
    where = {"workdir": WORKDIR, "base_commit": prepared.base_commit}
    patch = await take_patch(boxes[0], **where, mode="committed", before=before)
    assert [file.new for file in patch.files] == [b"n.py"]


async def test_nothing_differs_in_an_environment_of_ours(boxes: tuple[Box, Box], prepared: PreparedEnvironment) -> None:
    await run(boxes[0], "mkdir ignored; echo x > ignored/x; echo y > y.log")
    assert await differences(boxes[0], workdir=WORKDIR, base_commit=prepared.base_commit) == b""
    assert Patch(data=b"") == await take_patch(boxes[0], workdir=WORKDIR, base_commit=prepared.base_commit)
