"""Programs that are run inside boxes, by the Python of the box and nothing besides."""

from __future__ import annotations

import json
from typing import Any

from swe_sdk.agents.contract import ModelAccess
from swe_sdk.agents.model_endpoint import model_env
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.sandbox.contract import Box

ASK = """
import json, os, sys, time, urllib.error, urllib.request
base, key, model = (os.environ[name] for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "NEMO_GYM_MODEL"))
given = json.loads(sys.argv[1])
body = json.dumps({"model": model, "messages": [{"role": "user", "content": "from the box"}], **given}).encode()
headers = {"content-type": "application/json", "authorization": "Bearer " + key}
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
times = []
try:
    with opener.open(urllib.request.Request(base + "/chat/completions", body, headers), timeout=60) as reply:
        status, lines = reply.status, []
        for line in reply:
            if line.strip():
                lines.append(line.decode())
                times.append(time.monotonic())
except urllib.error.HTTPError as error:
    status, lines = error.code, [error.read().decode()]
gaps = [later - earlier for earlier, later in zip(times, times[1:])]
print(json.dumps({"status": status, "lines": lines, "gaps": gaps}))
"""
KNOCK = """
import json, socket, sys
reached = []
for host, port in json.loads(sys.argv[1]):
    try:
        socket.create_connection((host, port), 0.5).close()
        reached.append([host, port])
    except OSError:
        pass
try:
    socket.getaddrinfo("example.com", 80)
    reached.append("a name server")
except OSError:
    pass
print(json.dumps(reached))
"""
RAW = """
import json, socket, sys
answers = []
for text in json.loads(sys.argv[2]):
    with socket.create_connection(("127.0.0.1", int(sys.argv[1])), 5) as connection:
        connection.sendall(text.encode("latin-1"))
        connection.settimeout(5)
        data = b""
        try:
            while piece := connection.recv(65536):
                data += piece
        except OSError:
            pass
        answers.append(data.decode("latin-1"))
print(json.dumps(answers))
"""


async def python(box: Box, program: str, *arguments: str, env: dict[str, str] | None = None) -> Any:
    """What a program prints, as JSON."""
    result = await run(box, program, *arguments, env=env)
    assert result.ok, result.stderr
    return json.loads(result.stdout)


async def run(box: Box, program: str, *arguments: str, env: dict[str, str] | None = None) -> ExecResult:
    return await box.exec(["python3", "-c", program, *arguments], env=env, timeout_s=90)


async def ask(box: Box, access: ModelAccess, **body: Any) -> dict[str, Any]:
    """Call the model from within the box, with the four variables alone."""
    answer: dict[str, Any] = await python(box, ASK, json.dumps(body), env=model_env(access))
    return answer
