"""Providers that break one promise each: what the conformance suite is there to find."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio

from swe_sdk.errors import SandboxLost, SnapshotNotFound, TransferFailed
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.sandbox.contract import Box, BoxStatus, OnOutput, ProviderHealth, SandboxSpec, Snapshot
from swe_sdk.testing.fake import FakeBox, FakeProvider
from swe_sdk.testing.injection import Injector


def argv_of(command: str | Sequence[str]) -> list[str]:
    return ["bash", "-c", command] if isinstance(command, str) else list(command)


class DropsStderr(FakeBox):
    async def exec(self, command: Any, **options: Any) -> ExecResult:
        return (await super().exec(command, **options)).model_copy(update={"stderr_bytes": b""})


class ReportsTimeoutsAs124(FakeBox):
    async def exec(self, command: Any, **options: Any) -> ExecResult:
        result = await super().exec(command, **options)
        return (
            result.model_copy(update={"status": "exited", "exit_code": 124}) if result.status == "timeout" else result
        )


class LeaksAtTimeout(FakeBox):
    """Reports the timeout in time, and leaves the program running."""

    async def exec(self, command: Any, **options: Any) -> ExecResult:
        limit_s = options.get("timeout_s") or 45
        if limit_s > 2:
            return await super().exec(command, **options)
        script = 'setsid "$@" < /dev/null > /dev/null 2>&1 & sleep "$0"'
        await super().exec(["sh", "-c", script, str(limit_s), *argv_of(command)], cwd=options.get("cwd"))
        return ExecResult(status="timeout", duration_s=limit_s)


class LeaksAtCancellation(FakeBox):
    """Forgets the program when the caller gives up."""

    async def exec(self, command: Any, **options: Any) -> ExecResult:
        if options.get("timeout_s", 0) is not None:
            return await super().exec(command, **options)
        await super().exec(["sh", "-c", 'setsid "$@" < /dev/null > /dev/null 2>&1 &', "sh", *argv_of(command)])
        await anyio.sleep_forever()
        raise AssertionError


class WaitsForPipes(FakeBox):
    """Returns when the last holder of the output has closed it."""

    async def exec(self, command: Any, **options: Any) -> ExecResult:
        return await super().exec(["bash", "-o", "pipefail", "-c", '"$@" | cat', "bash", *argv_of(command)], **options)


class RetriesFailures(FakeBox):
    async def exec(self, command: Any, **options: Any) -> ExecResult:
        result = await super().exec(command, **options)
        return result if result.ok else await super().exec(command, **options)


class ReadsTroubleFromOutput(FakeBox):
    async def exec(self, command: Any, **options: Any) -> ExecResult:
        result = await super().exec(command, **options)
        if "Cannot connect to the Docker daemon" in result.stderr:
            raise SandboxLost("the daemon is gone")
        return result


class ReadsTroubleFromExitCodes(FakeBox):
    async def exec(self, command: Any, **options: Any) -> ExecResult:
        result = await super().exec(command, **options)
        if result.exit_code in (137, -9):
            return result.model_copy(update={"status": "oom", "exit_code": None})
        if result.exit_code == 127:
            raise SandboxLost("the sandbox cannot start programs")
        return result


class DecodesOutput(FakeBox):
    async def exec(self, command: Any, **options: Any) -> ExecResult:
        result = await super().exec(command, **options)
        return result.model_copy(update={"stdout_bytes": result.stdout.encode()})


class StripsOutput(FakeBox):
    async def exec(self, command: Any, **options: Any) -> ExecResult:
        result = await super().exec(command, **options)
        return result.model_copy(update={"stdout_bytes": result.stdout_bytes.rstrip(b"\n")})


class DelaysOutput(FakeBox):
    """Calls ``on_output`` once the program has ended."""

    async def exec(self, command: Any, *, on_output: OnOutput | None = None, **options: Any) -> ExecResult:
        result = await super().exec(command, **options)
        if on_output:
            on_output("stdout", result.stdout_bytes)
            on_output("stderr", result.stderr_bytes)
        return result


class KeepsAllOutput(FakeBox):
    async def exec(self, command: Any, **options: Any) -> ExecResult:
        return await super().exec(command, **{**options, "output_bytes": 1 << 40})


class KeepsOnlyTheHead(FakeBox):
    async def exec(self, command: Any, **options: Any) -> ExecResult:
        result = await super().exec(command, **options)
        if not result.truncated:
            return result
        head = result.stdout_bytes[: len(result.stdout_bytes) // 2]
        dropped = result.stdout_dropped_bytes + len(result.stdout_bytes) - len(head)
        return result.model_copy(update={"stdout_bytes": head, "stdout_dropped_bytes": dropped})


class MiscountsOutput(FakeBox):
    async def exec(self, command: Any, **options: Any) -> ExecResult:
        result = await super().exec(command, **options)
        return result.model_copy(update={"stdout_dropped_bytes": result.stdout_dropped_bytes // 4096 * 4096})


class ShowsVariablesOnCommandLines(FakeBox):
    async def exec(self, command: Any, *, env: Any = None, **options: Any) -> ExecResult:
        pairs = [f"{name}={value}" for name, value in (env or {}).items()]
        script = 'export "$1"; shift; "$@"; exit $?'
        return await super().exec(["sh", "-c", script, "sh", *(pairs or ["NO=1"]), *argv_of(command)], **options)


class PassesOwnEnvironment(FakeBox):
    async def exec(self, command: Any, *, env: Any = None, **options: Any) -> ExecResult:
        return await super().exec(command, env={**os.environ, **(env or {})}, **options)


class IgnoresTheDirectory(FakeBox):
    async def exec(self, command: Any, *, cwd: Any = None, **options: Any) -> ExecResult:
        return await super().exec(command, **options)


class LeavesInputOpen(FakeBox):
    async def exec(self, command: Any, **options: Any) -> ExecResult:
        return await super().exec(["sh", "-c", 'sleep 20 | "$@"', "sh", *argv_of(command)], **options)


class CutsInput(FakeBox):
    async def exec(self, command: Any, *, stdin: Any = None, **options: Any) -> ExecResult:
        return await super().exec(command, stdin=stdin and stdin[:65536], **options)


class IgnoresTheUser(FakeBox):
    async def exec(self, command: Any, *, user: Any = None, **options: Any) -> ExecResult:
        return await super().exec(command, **options)


class RunsOneAtATime(FakeBox):
    async def exec(self, command: Any, **options: Any) -> ExecResult:
        self._lock = getattr(self, "_lock", None) or anyio.Lock()
        async with self._lock:
            return await super().exec(command, **options)


class SaysMissingFilesAreEmpty(FakeBox):
    async def read(self, path: str) -> bytes:
        try:
            return await super().read(path)
        except TransferFailed:
            return b""


class ResolvesLinksOutside(FakeBox):
    """Looks up links in the box and follows them on this machine, as a helper outside of the box would."""

    async def read(self, path: str) -> bytes:
        target = await self._target(path)
        return Path(target).read_bytes() if target and Path(target).is_file() else await super().read(path)

    async def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        target = await self._target(path)
        if target and Path(target).is_file():
            Path(target).write_bytes(data)
        else:
            await super().write(path, data, mode=mode)

    async def _target(self, path: str) -> str:
        return (await self.inner.exec(["readlink", path])).stdout.strip()


class ForgetsModes(FakeBox):
    async def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        await super().write(path, data)


class SpoilsNames(FakeBox):
    async def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        await super().write(path.encode(errors="replace").decode(), data, mode=mode)


class HoldsFilesInMemory(FakeBox):
    async def upload(self, local: Path, remote: str) -> None:
        await self.write(remote, local.read_bytes(), mode=local.stat().st_mode & 0o7777)


class DownloadsInPlace(FakeBox):
    async def download(self, remote: str, local: Path) -> None:
        local.write_bytes(b"")
        await super().download(remote, local)


class ClosesNothing(FakeBox):
    closed = False

    async def close(self) -> None:
        self.closed = True

    async def status(self) -> BoxStatus:
        return "stopped" if self.closed else await super().status()


class ListensOutside(FakeBox):
    async def listen(self, port: int = 0) -> tuple[int, socket.socket]:
        listener = socket.create_server(("127.0.0.1", port))
        return listener.getsockname()[1], listener


class PausesNothing(FakeBox):
    async def pause(self) -> None:
        pass

    async def resume(self) -> None:
        pass


class RunsDuringPauses(FakeBox):
    """Continues the box for every command."""

    async def exec(self, command: Any, **options: Any) -> ExecResult:
        await self.resume()
        return await super().exec(command, **options)


class SwallowsCallbackErrors(FakeBox):
    async def exec(self, command: Any, *, on_output: OnOutput | None = None, **options: Any) -> ExecResult:
        return await super().exec(command, **({**options, "timeout_s": 1} if on_output else options))


class ListsNoProcesses(FakeBox):
    async def processes(self) -> list[Any]:
        return []


class Broken(FakeProvider):
    """A real provider whose boxes are of a broken type."""

    def __init__(self, inner: Any, box_type: type[FakeBox] = FakeBox) -> None:
        super().__init__(inner=inner)
        self._box_type = box_type

    def watch(self, inner: Box, injector: Injector) -> FakeBox:
        return self._box_type(inner, injector, self.capabilities)


class GivesEverybodyTheSameBox(Broken):
    async def create(self, spec: SandboxSpec) -> Box:
        return self.boxes[0] if self.boxes else await super().create(spec)


class SharesTheNetwork(Broken):
    async def create(self, spec: SandboxSpec) -> Box:
        return await super().create(spec.model_copy(update={"network": "host"}))


class ForgetsLimits(Broken):
    async def create(self, spec: SandboxSpec) -> Box:
        return await super().create(SandboxSpec(snapshot=spec.snapshot))


class SaysNothingOfLimits(Broken):
    async def probe(self) -> ProviderHealth:
        return (await super().probe()).model_copy(update={"limits": {}})


class ForksNothing(Broken):
    async def create(self, spec: SandboxSpec) -> Box:
        return await super().create(spec.model_copy(update={"snapshot": None}))


class MakesUpUnknownSnapshots(Broken):
    async def create(self, spec: SandboxSpec) -> Box:
        try:
            return await super().create(spec)
        except SnapshotNotFound:
            return await super().create(spec.model_copy(update={"snapshot": None}))


class CopiesOnFork(Broken):
    async def create(self, spec: SandboxSpec) -> Box:
        box = await super().create(spec)
        if spec.snapshot is not None:
            await box.exec("cp -r /data /copy", timeout_s=60)
        return box


class KillsBeforeSnapshot(Broken):
    async def snapshot(self, box: Box, *, snapshot_id: str | None = None) -> Snapshot:
        await box.exec("kill -9 -1")
        await anyio.sleep(0.1)
        return await super().snapshot(box, snapshot_id=snapshot_id)


class EmptiesTheBox(Broken):
    """Moves what it freezes out of the box."""

    async def snapshot(self, box: Box, *, snapshot_id: str | None = None) -> Snapshot:
        snapshot = await super().snapshot(box, snapshot_id=snapshot_id)
        await box.exec("rm -rf /tmp/* /data")
        return snapshot


class ChoosesItsOwnIds(Broken):
    async def snapshot(self, box: Box, *, snapshot_id: str | None = None) -> Snapshot:
        return await super().snapshot(box)


class ForgetsDeletion(Broken):
    async def delete_snapshot(self, snapshot_id: str) -> None:
        pass
