"""A real Jupyter kernel, driven as a front end drives it."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

ROOT = Path(__file__).resolve().parents[2]
_REPLY_CAP_S = 60.0


@dataclass
class Cell:
    """What came of a cell."""

    streams: dict[str, str] = field(default_factory=lambda: {"stdout": "", "stderr": ""})
    data: list[dict[str, Any]] = field(default_factory=list)
    """What was displayed, in its last state, and the value of the last line."""
    updates: int = 0
    """How often something that was displayed was changed."""
    error: str = ""
    """Name of the exception."""
    traceback: str = ""

    @property
    def out(self) -> str:
        return self.streams["stdout"]


class Kernel:
    """One kernel, with its own places for sandboxes, runs and results."""

    def __init__(self, state: Path, places: Path) -> None:
        told = {f"SWE_SDK_{name}": str(places / name.lower()) for name in ("RESULTS", "RUNS", "INDEX")}
        self._env = {**os.environ, **told, "SWE_SDK_STATE": str(state), "PYTHONPATH": str(ROOT)}
        self._manager = KernelManager(transport="ipc", ip=str(places / "kernel"))
        spec = self._manager.kernel_spec
        assert spec is not None
        spec.argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        self._manager.start_kernel(env=self._env, cwd=str(places))
        self._client: BlockingKernelClient = self._manager.blocking_client()
        self._ready()

    def _ready(self) -> None:
        self._client.start_channels()
        self._client.wait_for_ready(timeout=_REPLY_CAP_S)

    def start(self, code: str) -> str:
        """Send a cell; its id."""
        return self._client.execute(code, allow_stdin=False)

    def finish(self, cell_id: str, cap_s: float = _REPLY_CAP_S) -> Cell:
        """Wait for the end of a cell, and for all that it has displayed."""
        cell, shown, deadline = Cell(), {}, time.monotonic() + cap_s
        while time.monotonic() < deadline:
            try:
                message = self._client.get_iopub_msg(timeout=0.2)
            except Empty:
                continue
            if message["parent_header"].get("msg_id") == cell_id and _take(message, cell, shown):
                return cell
        raise TimeoutError(f"the cell did not end within {cap_s} s: {cell}")

    def run(self, code: str, cap_s: float = _REPLY_CAP_S) -> Cell:
        """Run a cell to its end."""
        return self.finish(self.start(code), cap_s)

    def good(self, code: str) -> str:
        """What a cell prints, which must not fail."""
        cell = self.run(code)
        assert not cell.error, cell.traceback
        return cell.out

    def wait_for(self, cell_id: str, text: str) -> None:
        """Until a cell has printed a text."""
        seen, deadline = "", time.monotonic() + _REPLY_CAP_S
        while text not in seen:
            assert time.monotonic() < deadline, f"{text!r} never came: {seen}"
            try:
                message = self._client.get_iopub_msg(timeout=0.2)
            except Empty:
                continue
            assert message["header"]["msg_type"] != "error", message["content"]
            if message["parent_header"].get("msg_id") == cell_id:
                seen += message["content"].get("text", "")

    def interrupt(self) -> None:
        """The stop button."""
        self._manager.interrupt_kernel()

    def restart(self, *, now: bool = False) -> None:
        """The restart button; ``now`` kills it without asking."""
        self._client.stop_channels()
        self._manager.restart_kernel(now=now)
        self._client = self._manager.blocking_client()
        self._ready()

    @property
    def pid(self) -> int:
        return int(self.good("import os; print(os.getpid())"))

    def close(self) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel()
        self._manager.cleanup_resources()


def _take(message: dict[str, Any], cell: Cell, shown: dict[str, dict[str, Any]]) -> bool:
    """Add a message to its cell; whether it was the last one."""
    kind, content = message["header"]["msg_type"], message["content"]
    if kind == "stream":
        cell.streams[content["name"]] += content["text"]
    elif kind in ("display_data", "execute_result"):
        cell.data.append(content["data"])
        shown[content.get("transient", {}).get("display_id", "")] = content["data"]
    elif kind == "update_display_data":
        cell.updates += 1
        shown[content["transient"]["display_id"]].update(content["data"])
    elif kind == "error":
        cell.error, cell.traceback = content["ename"], "\n".join(content["traceback"])
    return kind == "status" and content["execution_state"] == "idle"
