"""Pythons and programs of a container image, found by looking into a box that stands on it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from swe_sdk.errors import MissingTool, PrerequisiteError, SandboxLost
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.sandbox.contract import Box, SandboxProvider, SandboxSpec, Toolchain
from swe_sdk.sandbox.providers.local.toolchain import PROBE, Interpreter, version_matcher

WANTED = "an image with a shell, git, tar, patch and Python with its venv module"
_LOOK_S = 120.0
_ALWAYS = ("git", "tar")
_PYTHONS = """
on_path() { IFS=:; for d in $PATH; do echo "$d/python3"; ls -d "$d"/python3.[0-9] "$d"/python3.[0-9][0-9]; done; }
elsewhere() {
  ls -d /opt/*/bin/python3 /opt/python/*/bin/python3 /opt/*/envs/*/bin/python3 /root/.pyenv/versions/*/bin/python3
}
for python in $( (on_path; elsewhere) 2> /dev/null); do
  [ -x "$python" ] && "$python" -I -c "$1" 2> /dev/null
  [ $? -eq 137 ] && kill -9 $$
done
true
"""
"""Has each Python tell about itself: those on PATH first, then those in the places where images keep others.

If one of them is killed, the whole of it is.
"""


def no_base_image(provider: str) -> PrerequisiteError:
    """Where nobody has said what to build on."""
    return PrerequisiteError(
        f"{provider} boxes stand on images, and neither the task nor a setting names one",
        remedy=f"give base_image (--base-image IMAGE) or set SWE_SDK_BASE_IMAGE: {WANTED}",
    )


async def toolchain_of(
    provider: SandboxProvider, image: str, name: str, key: str, python: str | None, tools: Sequence[str]
) -> Toolchain:
    """See :func:`find_toolchain`, in a new box on ``image``, which is called ``name`` in errors."""
    box = await provider.create(SandboxSpec(image=image, workdir="/", labels={"task": "toolchain"}))
    try:
        return await find_toolchain(box, name, key, python, tools)
    finally:
        await box.close()


async def find_toolchain(box: Box, image: str, key: str, python: str | None, tools: Sequence[str]) -> Toolchain:
    """See ``SupportsBuild.toolchain``. ``box`` stands on ``image``, whose content ``key`` names.

    ``MissingTool`` where the image lacks something, ``SandboxLost`` where that could not be found out.
    """
    for tool in (*_ALWAYS, *tools):
        if not (await _look(box, "/bin/sh", "-c", 'command -v "$1"', "sh", tool)).ok:
            raise MissingTool(tool, where=f"in the image {image}", remedy=f"use {WANTED}, and with {tool}")
    found = None if python is None else _choose(await _interpreters(box), python, image)
    names = (f"image:{key}", *tools)
    if found is None:
        return Toolchain(fingerprint=names, of_machine=False)
    fingerprint = (*names, f"python:{found.version}:{found.executable}")
    return Toolchain(python=found.executable, fingerprint=fingerprint, of_machine=False)


async def _interpreters(box: Box) -> list[Interpreter]:
    told = await _look(box, "/bin/sh", "-c", _PYTHONS, "sh", PROBE)
    return list({found.executable: found for found in _parsed(told.stdout.splitlines())}.values())


async def _look(box: Box, *command: str) -> ExecResult:
    """What a command of ours says. One that was killed has said nothing of the image: it is tried once more."""
    for _attempt in range(2):
        result = await box.exec(command, cwd="/", timeout_s=_LOOK_S)
        if result.exit_code is not None and result.exit_code >= 0:
            return result
    raise SandboxLost(f"a look into an image {result.summary}, twice")


def _parsed(lines: Iterable[str]) -> Iterator[Interpreter]:
    for line in lines:
        try:
            version, prefix, executable, is_complete = json.loads(line)
        except (ValueError, TypeError):
            continue  # a Python that says something else as it starts
        yield Interpreter(version, prefix, executable, is_complete)


def _choose(found: Sequence[Interpreter], wanted: str, image: str) -> Interpreter:
    matches = version_matcher(wanted)
    matching = [interpreter for interpreter in found if matches(interpreter.version)]
    complete = [interpreter for interpreter in matching if interpreter.is_complete]
    if complete:
        return complete[0]
    if matching:
        name = f"python{matching[0].version.rpartition('.')[0]}-venv"
        missing = f"the venv module of {matching[0].executable}"
        raise MissingTool(missing, where=f"in the image {image}", remedy=f"use an image with {name}")
    there = ", ".join(sorted({interpreter.version for interpreter in found})) or "none"
    remedy = f"it has {there}; use an image that has it"
    raise MissingTool(f"Python {wanted}", where=f"in the image {image}", remedy=remedy)
