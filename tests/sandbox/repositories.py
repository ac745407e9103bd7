"""A repository in a box: bring a tree in, list what is there, take a patch, and see what it makes of a fresh copy."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

from swe_sdk.model.patch import Patch
from swe_sdk.sandbox.contract import Box
from swe_sdk.sandbox.tree import take_patch

WORKDIR = "/testbed"
IDENTITY = "-c user.name=t -c user.email=t@localhost -c gc.auto=0 -c core.protectNTFS=false"
Tree = dict[bytes, tuple[str, bytes]]
"""Files and links by path: "f", "x" (executable) or "l", and a digest or a link's target."""


async def run(box: Box, script: str) -> bytes:
    """The output of a shell script in the repository, which must succeed."""
    result = await box.exec(["bash", "-ec", script], cwd=WORKDIR, timeout_s=60, output_bytes=64 << 20)
    assert result.ok, (script[:200], result.summary, result.stderr[-2000:])
    return result.stdout_bytes


async def tree_of(box: Box) -> Tree:
    """All files and links of the repository but for version control."""
    found = await run(box, r"find . -name .git -prune -o \( -type f -o -type l \) -printf '%y%#m %p\0%l\0'")
    sums = await run(box, "find . -name .git -prune -o -type f -print0 | xargs -0r sha256sum -z --")
    digests = {line[66:]: line[:64] for line in sums.split(b"\0")[:-1]}
    fields = iter(found.split(b"\0")[:-1])
    tree: Tree = {}
    for first, target in zip(fields, fields, strict=True):
        kind, _, path = first.partition(b" ")
        is_executable = kind[:1] == b"f" and int(kind[1:], 8) & 0o111 != 0
        tree[path[2:]] = ("x" if is_executable else kind[:1].decode(), digests.get(path, target))
    return tree


async def replace_tree(box: Box, root: Path) -> None:
    """Make the repository's files those below ``root`` on the host; its .git is left."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name in sorted(os.listdir(root)):
            if name != ".git":
                tar.add(root / name, arcname=name)
    await box.write("/tmp/tree.tar", packed.getvalue())
    await run(
        box,
        "find . -mindepth 1 -maxdepth 1 ! -name .git -exec rm -rf {} +; "
        "tar --no-same-owner -p -xf /tmp/tree.tar; rm /tmp/tree.tar",
    )


async def commit_everything(box: Box) -> str:
    """A new repository whose one commit is what is there; its id."""
    commit = f"git {IDENTITY} commit -q --allow-empty -m base"
    return (await run(box, f"rm -rf .git; git init -q; git add -A -f; {commit}; git rev-parse HEAD")).decode().strip()


async def apply(box: Box, patch: Patch) -> None:
    """Apply a patch as a grader would."""
    if patch.data:
        await box.write("/tmp/the.patch", patch.data)
        await run(box, "git -c core.protectNTFS=false apply --whitespace=nowarn --binary /tmp/the.patch")


async def patch_of(box: Box, base: str) -> Patch:
    """Take a patch, and check that doing so leaves nothing behind and changes nothing."""
    census = "ls -A /tmp; find .git -type f 2>/dev/null | sort | xargs -d '\\n' -r sha256sum"
    before = await run(box, census)
    patch = await take_patch(box, workdir=WORKDIR, base_commit=base)
    assert await run(box, census) == before
    return patch
