"""A19: E2B's own SDK and our client give equal results on the stand-in, which keeps all three honest."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from swe_sdk.sandbox.providers.e2b.naming import system_id
from swe_sdk.sandbox.providers.e2b.provider import E2BProvider
from swe_sdk.sandbox.providers.remote.labels import BOX_KIND, KIND
from tests.package_venv import package_python
from tests.sandbox.e2b.conftest import MakeBox
from tests.sandbox.e2b.stub.control import ENVD_VERSION
from tests.sandbox.e2b.stubs import KEY, TEMPLATE, Server

pytestmark = [pytest.mark.anyio, pytest.mark.network]
_PROGRAM = Path(__file__).with_name("second_client.py")
_LINES = (
    "echo out; echo err >&2; exit 3",
    "printf 'no newline'",
    "printf 'crlf\\r\\n\\r\\nand more\\r\\n'",
    "printf '\\303\\251\\344\\270\\226'",
    "true",
    "id -u; echo $HOME",
)
Ask = Callable[..., Any]


@pytest.fixture
def sdk(server: Server) -> Iterator[Ask]:
    """E2B's SDK in a process of its own, on the same server; an error of it is raised here."""
    environment = {"E2B_API_URL": server.url, "E2B_SANDBOX_URL": server.url, "E2B_API_KEY": KEY}
    words = [str(package_python("e2b", "2.63.0")), str(_PROGRAM)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(words, text=True, env={**environment, "PATH": os.environ["PATH"]}, **pipes) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def ask(action: str, **request: Any) -> Any:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps({"do": action, **request}) + "\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.readline())
            if "error" in answer:
                raise RuntimeError(answer["error"])
            return answer["ok"]

        yield ask
        process.stdin.close()


async def _address(provider: E2BProvider, sandbox: str) -> dict[str, Any]:
    """What any client is told of a sandbox, from the control plane."""
    from swe_sdk.sandbox.providers.e2b.engine import E2BEngine

    assert isinstance(provider.engine, E2BEngine)
    return {"token": (await provider.engine.address(sandbox)).token, "envd_version": ENVD_VERSION}


async def test_commands_give_the_same(make_box: MakeBox, e2b_provider: E2BProvider, sdk: Ask) -> None:
    box = await make_box(workdir="/root")
    reach = {"sandbox": box.handle, "address": await _address(e2b_provider, box.handle)}
    for line in _LINES:
        ours = await box.exec(line)
        assert [ours.exit_code, ours.stdout, ours.stderr] == sdk("run", line=line, **reach), line


async def test_files_are_the_same_whoever_writes_them(make_box: MakeBox, e2b_provider: E2BProvider, sdk: Ask) -> None:
    box, data = await make_box(), bytes(range(256)) * 100 + b"\r\n no newline"
    reach = {"sandbox": box.handle, "address": await _address(e2b_provider, box.handle)}
    sdk("write", path="/made/by/sdk", data=base64.b64encode(data).decode(), **reach)
    await box.write("/made/by/us", data)
    assert await box.read("/made/by/sdk") == data
    assert base64.b64decode(sdk("read", path="/made/by/us", **reach)) == data
    with pytest.raises(RuntimeError, match="FileNotFoundException"):
        sdk("read", path="/made/by/nobody", **reach)


async def test_both_are_told_of_the_same_sandboxes(make_box: MakeBox, e2b_provider: E2BProvider, sdk: Ask) -> None:
    boxes = [await make_box(labels={"run": f"run.{number}"}) for number in range(4)]
    assert sdk("listed", metadata={KIND: BOX_KIND}) == sorted(box.handle for box in boxes)
    assert sdk("listed", metadata={"swe_sdk.run": "run.2"}) == [boxes[2].handle]
    found = await e2b_provider.engine.find(boxes[0].handle)
    assert found is not None
    assert sdk("state", sandbox=boxes[0].handle) == ["running", dict(found.metadata)]
    await boxes[0].pause()
    assert sdk("state", sandbox=boxes[0].handle)[0] == "paused"
    assert sdk("kill", sandbox=boxes[0].handle) is True
    assert sdk("kill", sandbox=boxes[0].handle) is False
    assert await boxes[0].status() == "lost"


async def test_both_are_told_of_the_same_snapshots(make_box: MakeBox, e2b_provider: E2BProvider, sdk: Ask) -> None:
    box = await make_box()
    for _ in range(4):
        await e2b_provider.snapshot(box)
    found = await e2b_provider.engine.snapshots()
    assert sdk("snapshots") == sorted(system_id(one.id) for one in found)
    for one in found:
        assert sdk("delete_snapshot", snapshot=system_id(one.id)) is True
    assert await e2b_provider.snapshots() == []


async def test_only_e2b_itself_makes_sandboxes_for_it(server: Server, e2b_provider: E2BProvider, sdk: Ask) -> None:
    """The two have drifted apart: this is why there are dialects."""
    if server.dialect == "agentenv":
        with pytest.raises(RuntimeError, match="405"):
            sdk("create", template=TEMPLATE, metadata={})
        return
    made = sdk("create", template=TEMPLATE, metadata={"a": "b"})
    assert [one.id for one in await e2b_provider.engine.sandboxes({"a": "b"})] == [made]
    heard: list[str] = []
    await e2b_provider.engine.run(made, 'echo "$X"', {"X": "by us"}, heard.append)
    assert heard == ["by us"]
    await e2b_provider.engine.pause(made)
    await e2b_provider.engine.pause(made)
    assert sdk("pause", sandbox=made) is False
    await e2b_provider.engine.kill(made)
    assert sdk("kill", sandbox=made) is False
