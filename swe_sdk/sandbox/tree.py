"""What a repository in a box amounts to as a patch against its recorded base: raw bytes, whatever happened there."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import anyio

from swe_sdk.errors import PatchUnavailable, SandboxLost, TransferFailed
from swe_sdk.model.ids import new_id
from swe_sdk.model.patch import Patch
from swe_sdk.sandbox import tree_scripts as scripts
from swe_sdk.sandbox.build import BASE_PATH
from swe_sdk.sandbox.contract import Box, SandboxProvider
from swe_sdk.sandbox.prepared import PreparedEnvironment

PatchMode = Literal["worktree", "committed"]
DIFF_TIMEOUT_S = 300.0
MAX_PATCH_BYTES = 256 << 20
_CLEAN_UP_S = 20.0
_PATCH: dict[PatchMode, str] = {
    "worktree": scripts.OPEN + scripts.WORKTREE + scripts.ADD_NEW + scripts.DIFF,
    "committed": scripts.OPEN + scripts.COMMITTED + scripts.DIFF,
}


async def take_patch(
    box: Box,
    *,
    workdir: str,
    base_commit: str,
    mode: PatchMode = "worktree",
    before: bytes = b"",
    base_pack: Path | None = None,
    timeout_s: float = DIFF_TIMEOUT_S,
) -> Patch:
    """What differs from ``base_commit`` in ``workdir``: edits, new, deleted and binary files, modes, links.

    ``worktree``: committed or not, staged or not; files that the repository's own .gitignore names are left out.
    ``committed``: only what the repository's HEAD holds. Left out as well is what differed before anybody worked there,
    as :func:`differences` has found it: untracked files by their name, the others where they are as they were.
    ``base_pack`` (:func:`pack_base`) is for repositories that have lost their base.

    Raises ``TransferFailed`` where git cannot say, for example because the base commit was deleted from the repository,
    and ``SandboxLost``.
    """
    async with _own_folder(box) as own:
        if before:
            await box.write(f"{own}/before", before)
        if base_pack is not None:
            await box.upload(base_pack, f"{own}/base.pack")
        await _run(box, _PATCH[mode], own, workdir, base_commit, timeout_s)
        return Patch(data=await box.read(f"{own}/result"))


async def differences(box: Box, *, workdir: str, base_commit: str, timeout_s: float = DIFF_TIMEOUT_S) -> bytes:
    """What differs from ``base_commit`` in a box that nobody has worked in yet, for ``take_patch(before=...)``.

    Nothing in an environment that we have built. Raises ``TransferFailed`` and ``SandboxLost``.
    """
    async with _own_folder(box) as own:
        await _run(box, scripts.OPEN + scripts.WORKTREE + scripts.LIST, own, workdir, base_commit, timeout_s)
        return await box.read(f"{own}/result")


async def pack_base(
    box: Box, target: Path, *, workdir: str, base_commit: str, timeout_s: float = DIFF_TIMEOUT_S
) -> None:
    """Write the base commit and its files, as a pack of git, to ``target`` on this machine; its history is left out.

    Raises ``TransferFailed`` and ``SandboxLost``.
    """
    async with _own_folder(box) as own:
        await _run(box, scripts.OPEN + scripts.PACK_BASE, own, workdir, base_commit, timeout_s)
        await box.download(f"{own}/result", target)


async def take_patch_whatever(
    provider: SandboxProvider,
    prepared: PreparedEnvironment,
    box: Box,
    *,
    mode: PatchMode = "worktree",
    before: bytes = b"",
    timeout_s: float = DIFF_TIMEOUT_S,
) -> Patch:
    """As :func:`take_patch`, from a ``box`` of ``prepared`` in which anything may have happened to the repository.

    Where its ``.git`` is gone or broken, the base is brought over from a fresh box. Where even that does not help, it
    is the doing of whoever worked there: ``PatchUnavailable``. Raises what making a box raises, ``SandboxLost``, and
    ``TransferFailed`` where no patch can be taken from a fresh box either. ``timeout_s`` is for each of four steps.
    """
    base = prepared.workdir, prepared.base_commit

    async def take(box: Box, pack: Path | None = None) -> Patch:
        workdir, commit = base
        return await take_patch(
            box, workdir=workdir, base_commit=commit, mode=mode, before=before, base_pack=pack, timeout_s=timeout_s
        )

    try:
        return await take(box)
    except TransferFailed as first:
        with tempfile.TemporaryDirectory(prefix="swe_sdk-") as folder:
            pack = Path(folder) / "base.pack"
            async with _fresh_box(provider, prepared) as fresh:
                await pack_base(fresh, pack, workdir=base[0], base_commit=base[1], timeout_s=timeout_s)
                await take(fresh, pack)
            try:
                return await take(box, pack)
            except TransferFailed as error:
                raise PatchUnavailable(f"no patch can be taken from what the sandbox holds: {first.message}") from error


@asynccontextmanager
async def _fresh_box(provider: SandboxProvider, prepared: PreparedEnvironment) -> AsyncIterator[Box]:
    box = await provider.create(prepared.spec())
    try:
        yield box
    finally:
        with anyio.move_on_after(_CLEAN_UP_S, shield=True):
            await box.close()


@asynccontextmanager
async def _own_folder(box: Box) -> AsyncIterator[str]:
    """A folder in the box, gone afterwards."""
    own = f"/tmp/{new_id('diff')}"
    try:
        yield own
    finally:
        with anyio.move_on_after(_CLEAN_UP_S, shield=True):
            if await box.status() == "running":
                await box.exec(["rm", "-rf", own], cwd="/", timeout_s=_CLEAN_UP_S)


async def _run(box: Box, script: str, own: str, workdir: str, base_commit: str, timeout_s: float) -> None:
    env = {
        "TREE": workdir, "BASE": base_commit, "OWN": own, "MOST": str(MAX_PATCH_BYTES),
        "PATH": ":".join(BASE_PATH), "HOME": own, "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "", "GIT_ATTR_NOSYSTEM": "1",
        "GIT_CONFIG_COUNT": "4",
        "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*",
        "GIT_CONFIG_KEY_1": "core.autocrlf", "GIT_CONFIG_VALUE_1": "false",
        "GIT_CONFIG_KEY_2": "gc.auto", "GIT_CONFIG_VALUE_2": "0",
        "GIT_CONFIG_KEY_3": "core.protectNTFS", "GIT_CONFIG_VALUE_3": "false",
    }  # fmt: skip
    # an environment of its own: none of the task's variables may reach git or bash
    command = ["env", "-i", *(f"{name}={value}" for name, value in env.items()), "/bin/bash", "-c", script]
    result = await box.exec(command, cwd="/", timeout_s=timeout_s)
    if result.status == "lost":
        raise SandboxLost("the sandbox died while its patch was taken")
    if not result.ok:
        raise TransferFailed(
            f"the patch could not be taken: git {result.summary}: {result.stderr.strip()[-500:]}",
            remedy=f"is {base_commit} still in the repository at {workdir}?",
        )
