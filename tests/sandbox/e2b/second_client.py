"""E2B's own SDK, 2.63.0, doing what our client does; run by a Python that has it.

``second_client.py`` reads one JSON object from standard input, ``{"do": NAME, ...}``, for each line, and answers with a
line. The address and the key come from the environment, as E2B documents it. AgentENV has no ``POST /v2/sandboxes``, so
there a sandbox is made by somebody else and named here.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable
from typing import Any

from e2b import CommandExitException, Sandbox, SandboxQuery
from e2b.sandbox.commands.command_handle import CommandResult

Request = dict[str, Any]


def create(request: Request) -> Any:
    made = Sandbox.create(request["template"], timeout=600, metadata=request["metadata"], allow_internet_access=False)
    return made.sandbox_id


def run(request: Request) -> Any:
    sandbox = _reach(request)
    try:
        result: CommandResult | CommandExitException = sandbox.commands.run(request["line"], user="root", timeout=30)
    except CommandExitException as failed:
        result = failed
    return [result.exit_code, result.stdout, result.stderr]


def write(request: Request) -> Any:
    return _reach(request).files.write(request["path"], base64.b64decode(request["data"]), user="root").path


def read(request: Request) -> Any:
    return base64.b64encode(_reach(request).files.read(request["path"], format="bytes", user="root")).decode()


def state(request: Request) -> Any:
    info = Sandbox.get_info(request["sandbox"])
    return [info.state.value, info.metadata]


def listed(request: Request) -> Any:
    pages, found = Sandbox.list(query=SandboxQuery(metadata=request["metadata"])), []
    while pages.has_next:
        found += [info.sandbox_id for info in pages.next_items()]
    return sorted(found)


def snapshots(_request: Request) -> Any:
    pages, found = Sandbox.list_snapshots(), []
    while pages.has_next:
        found += [info.snapshot_id for info in pages.next_items()]
    return sorted(found)


def kill(request: Request) -> Any:
    return Sandbox.kill(request["sandbox"])


def delete_snapshot(request: Request) -> Any:
    return Sandbox.delete_snapshot(request["snapshot"])


def pause(request: Request) -> Any:
    return Sandbox.pause(request["sandbox"])


def _reach(request: Request) -> Sandbox:
    """Without ``connect``, which the two dialects serve at different addresses: all that is told is passed on."""
    from e2b.connection_config import ConnectionConfig
    from packaging.version import Version

    address = request["address"]
    headers = {
        "E2b-Sandbox-Id": request["sandbox"],
        "E2b-Sandbox-Port": str(ConnectionConfig.envd_port),
        "X-Access-Token": address["token"],
    }
    return Sandbox(
        sandbox_id=request["sandbox"],
        sandbox_domain=None,
        envd_version=Version(address["envd_version"]),
        envd_access_token=address["token"],
        traffic_access_token=None,
        connection_config=ConnectionConfig(extra_sandbox_headers=headers),
    )


_ACTIONS: list[Callable[[Request], Any]] = [
    *(create, run, write, read, state, listed, snapshots, kill, delete_snapshot, pause)
]


def main() -> None:
    """Serve until standard input ends."""
    actions = {action.__name__: action for action in _ACTIONS}
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"ok": actions[request["do"]](request)}
        except Exception as error:  # noqa: BLE001 - whatever it is, the test is told
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
