"""A trainer that knows nothing of swe_sdk: the table of routes, the order of the kinds, and a token. Plain HTTP."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

PREFIX = "/ng-control/v1/checkpoint"
ORDER = ("environment", "model", "agent", "resources")


class Trainer:
    """Saves and restores servers by their URLs."""

    def __init__(self, servers: Mapping[str, str], token: str, directory: Path) -> None:
        self.client = httpx.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=90, verify=False)
        self.servers = dict(servers)
        self.directory = directory
        self.kinds: dict[str, str] = {}

    async def __aenter__(self) -> Trainer:
        return self

    async def __aexit__(self, *_raised: object) -> None:
        await self.client.aclose()

    async def discover(self) -> None:
        for name, url in self.servers.items():
            answer = await self.client.get(f"{url}{PREFIX}/status")
            answer.raise_for_status()
            self.kinds[name] = answer.json()["kind"]

    async def post(self, name: str, operation: str, checkpoint: str, **fields: Any) -> Any:
        body = {"checkpoint_id": checkpoint, "deadline_ts": time.time() + 60, **fields}
        answer = await self.client.post(f"{self.servers[name]}{PREFIX}/{operation}", json=body)
        assert answer.status_code == 200, (name, operation, answer.text)
        return answer.json()

    def _in_order(self) -> list[str]:
        return sorted(self.servers, key=lambda name: ORDER.index(self.kinds[name]))

    async def save(self, checkpoint: str) -> list[Any]:
        """Which episodes it holds."""
        await self.discover()
        episodes: list[Any] = []
        restarts: list[Any] = []
        place = self.directory / checkpoint
        try:
            for name in self._in_order():
                report = (await self.post(name, "prepare", checkpoint))["report"]
                assert report["ready"], (name, report)
                episodes += report["episodes"]
                restarts += report["restarts"]
            held = [one for one in episodes if one not in restarts]
            for name in self._in_order():
                await self.post(name, "renew", checkpoint)
                await self.post(name, "commit", checkpoint, checkpoint_dir=str(place), episode_ids=held)
            complete = {"schema_version": 2, "checkpoint_id": checkpoint, "instances": {"run": held}}
            (place / "gym_checkpoint.json").write_text(json.dumps(complete))
        finally:
            for name in reversed(self._in_order()):
                await self.post(name, "resume", checkpoint)
        for name in self._in_order():
            await self.post(name, "release", checkpoint, kept=[checkpoint])
        return held

    async def restore(self, checkpoint: str) -> list[Any]:
        """The episodes that go on, as their next attempts."""
        await self.discover()
        place = self.directory / checkpoint
        (held,) = json.loads((place / "gym_checkpoint.json").read_text())["instances"].values()
        for name in self._in_order():
            await self.post(name, "restore", checkpoint, checkpoint_dir=str(place), episode_ids=held)
        for name in reversed(self._in_order()):
            await self.post(name, "resume", checkpoint)
        return list(held)

    async def retire(self, episodes: list[Any]) -> None:
        for name in self._in_order():
            await self.post(name, "retire", "over", episode_ids=episodes)
