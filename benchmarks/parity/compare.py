"""One comparison, from its options to what was found."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from anyio import to_thread

from benchmarks.debian import debian_image
from benchmarks.parity import floor, images, official, ours
from benchmarks.parity.grades import Grader
from benchmarks.parity.page import Comparison
from benchmarks.parity.published import not_run
from benchmarks.parity.tasks import Row, Selection, patch_of, select
from benchmarks.rows import Unavailable
from benchmarks.shared import shared_datasets
from swe_sdk.model.ids import safe_name
from swe_sdk.paths import state_dir
from swe_sdk.sandbox.providers.docker.provider import DockerProvider
from swe_sdk.sandbox.registry import named_provider


async def compare(options: argparse.Namespace, folder: Path) -> Comparison:
    """Everything below ``folder``. Raises ``Unavailable`` where nothing can be compared, ``SweError`` for bad rows."""
    official.harness_version()
    selection, api = select(options.tasks, options.ids), images.connect()
    base = options.base_image or (debian_image() if selection.sources else None)
    provider = DockerProvider(base_image=base)
    try:
        rows = await images.rows_with_images(
            api, selection, provider, workers=options.workers, pull=options.pull, say=_say
        )
        if not rows:
            first, why = next(iter(selection.absent.items()))
            raise Unavailable(f"none of {len(selection.absent)} tasks can be run here; {first}: {why}")
        scene = Scene(options, folder, selection, rows, provider)
        found = await scene.same_images()
        found.engine = images.engine_of(api, base)
        if options.rounds:
            found.pairs = await scene.pairs(api)
        for name in options.providers if selection.sources else ():
            await scene.own_environments(name, found)
        return found
    finally:
        await provider.aclose()


class Scene:
    """What all graders get: rows, patches, a number of workers."""

    def __init__(
        self, options: argparse.Namespace, folder: Path, selection: Selection, rows: list[Row], provider: DockerProvider
    ) -> None:
        self._folder = folder
        self._selection = selection
        self._rows = rows
        self._provider = provider
        self._rounds = options.rounds
        self._workers = options.workers
        self._tasks = _write(folder / "tasks.jsonl", rows)
        self._patches = {
            kind: {row["instance_id"]: patch for row in rows if (patch := patch_of(row, kind)) is not None}
            for kind in options.patches
        }
        self._predictions = {
            kind: _write(folder / f"{kind}.predictions.jsonl", _predictions(kind, patches))
            for kind, patches in self._patches.items()
        }

    async def same_images(self) -> Comparison:
        """By the official harness, then by us."""
        _say(f"{len(self._rows)} instances by the official harness")
        run_id = f"parity-{os.getpid()}"
        theirs = await to_thread.run_sync(
            official.run, self._folder, run_id, self._tasks, self._predictions, self._rows, self._workers
        )
        _say("the same by swe_sdk")
        own = await self._ours("swe_sdk", self._tasks, "--provider", "docker")
        rebuilt = self._selection.sources
        published = [name for name in self._selection.tasks if name not in rebuilt]
        left_out = not_run(published, rebuilt, _verified_ids(), self._selection.absent)
        return Comparison(theirs, own, workers=self._workers, not_run=left_out)

    async def pairs(self, api: Any) -> floor.Pairs:
        """Overheads by us and by bare API calls."""
        _say("in turns with bare API calls")
        cases = {
            (name, kind): patch
            for kind, patches in self._patches.items()
            for name, patch in patches.items()
            if kind != "empty"
        }
        return await floor.measure(
            api,
            self._provider,
            self._rows,
            cases,
            workers=self._workers,
            rounds=self._rounds,
            folder=self._folder / "pairs",
        )

    async def own_environments(self, name: str, found: Comparison) -> None:
        """The tasks that have sources, on what a provider builds of them; noted in ``found``."""
        health = await named_provider(name).probe()
        if not health.works:
            found.absent_providers[name] = health.reason
            return
        _say(f"on environments that the provider {name} builds")
        sources = self._selection.sources
        base = await to_thread.run_sync(self._base_image, name)
        options = [*(("--base-image", base) if base else ()), "--provider", name, "--instance-ids", *sources]
        try:
            found.others.append(await self._ours(f"{name} (built)", self._selection.file, *options))
        except Unavailable as error:  # what the others have found is not lost by it
            found.absent_providers[name] = str(error)

    async def _ours(self, name: str, tasks: Path, *options: str) -> Grader:
        folder = self._folder / safe_name(name)
        run = partial(ours.run, name, folder, tasks, self._predictions, self._workers, *options)
        return await to_thread.run_sync(run)

    def _base_image(self, provider: str) -> str | None:
        """That of the engine; as an archive, which needs no daemon, for Apptainer. Blocks."""
        name = self._provider.base_image
        if name is None or provider != "apptainer":
            return None if provider == "local" else name
        archive = state_dir() / "parity" / f"{name.replace('/', '_').replace(':', '_')}.tar"
        if not archive.exists():
            archive.parent.mkdir(parents=True, exist_ok=True)
            part = archive.with_suffix(f".{os.getpid()}")
            subprocess.run(["docker", "save", "--output", str(part), name], check=True, stdin=subprocess.DEVNULL)
            part.rename(archive)
        return f"docker-archive:{archive}"


def _predictions(kind: str, patches: dict[str, str]) -> list[Row]:
    return [{"instance_id": name, "model_name_or_path": kind, "model_patch": patch} for name, patch in patches.items()]


def _write(path: Path, rows: Iterable[Row]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    return path


def _verified_ids() -> Sequence[str]:
    """Of the rows of Verified that this machine has."""
    try:
        lines = (shared_datasets() / "rows" / "swe-bench" / "verified_v5.jsonl").read_text("utf-8").splitlines()
    except (Unavailable, OSError):
        return ()
    return [json.loads(line)["instance_id"] for line in lines]


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
