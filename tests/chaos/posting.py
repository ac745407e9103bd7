"""A client that posts many patches at once, and writes down each answer as it comes. It is made to be killed."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx


async def post_all(url: str, bodies: list[Any], answers: Path) -> None:
    """Post all bodies, each on a connection of its own; an answer is one line of JSON."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    with answers.open("a", buffering=1) as file:
        async with httpx.AsyncClient(base_url=url, limits=limits, timeout=600, verify=False) as client:
            async with anyio.create_task_group() as group:
                for body in bodies:
                    group.start_soon(_post, client, body, file)


async def _post(client: httpx.AsyncClient, body: Any, file: Any) -> None:
    answer = await client.post("/verify", json=body)
    told = {"patch": body["number"], "code": answer.status_code, "answer": answer.json()}
    file.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    _, url, bodies, answers = sys.argv
    posts = partial(post_all, url, json.loads(Path(bodies).read_text()), Path(answers))
    print("ready", flush=True)
    sys.stdin.read()  # until it is closed, for all clients at once
    anyio.run(posts)
