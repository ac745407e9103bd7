"""The sandboxes of the stand-in, as containers of the real Docker engine; its snapshots, as committed images.

What there is, is written down, so that a server that was killed and is started again knows of it.
"""

from __future__ import annotations

import json
import shutil
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import docker
from docker.errors import APIError, NotFound

LABEL = "swe_sdk.test.e2b"
_GUEST = Path(__file__).parent
_INSIDE = "/.e2b"
_READY_S = 30.0


class Problem(Exception):
    """What is answered instead of a result."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class Machine:
    """One sandbox: a container, and the directory of this machine that it shares with us."""

    id: str
    template: str
    metadata: dict[str, str]
    token: str
    folder: str
    started_at: float
    ends_at: float
    auto_pause: bool
    state: str = "running"

    @property
    def socket(self) -> Path:
        """Where its guest listens."""
        return Path(self.folder) / "s"


@dataclass
class Frozen:
    """One snapshot: an image."""

    id: str
    names: list[str]
    sandbox: str
    image: str
    created_at: float
    with_memory: bool


@dataclass
class Containers:
    """All of them, and the engine. ``mark`` labels what is made here; ``templates`` are images by template; ``home``
    holds what outlives a server."""

    mark: str
    templates: dict[str, str]
    home: Path
    machines: dict[str, Machine] = field(default_factory=dict)
    frozen: dict[str, Frozen] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._record = self.home / "record.json"
        if self._record.exists():
            kept = json.loads(self._record.read_text())
            self.machines = {one["id"]: Machine(**one) for one in kept["machines"]}
            self.frozen = {one["id"]: Frozen(**one) for one in kept["frozen"]}
        self._engine = docker.APIClient(version="auto", max_pool_size=32, **docker.utils.kwargs_from_env())
        self._has_nameless = False

    def write_down(self) -> None:
        """What there is now."""
        kept = {name: [asdict(one) for one in list(getattr(self, name).values())] for name in ("machines", "frozen")}
        half_made = self._record.with_suffix(".part")
        half_made.write_text(json.dumps(kept))
        half_made.rename(self._record)

    # -- sandboxes --------------------------------------------------------------------------------------------------

    def create(self, template: str, image: str, request: dict[str, Any], online: bool) -> Machine:
        """Start a container on ``image``, and wait for its guest."""
        identity = f"i{uuid.uuid4().hex[:19]}"
        folder = self.home / identity[-8:]  # a socket's path must be short
        folder.mkdir()
        now = time.time()
        machine = Machine(
            id=identity,
            template=template,
            metadata=dict(request.get("metadata") or {}),
            token=uuid.uuid4().hex,
            folder=str(folder),
            started_at=now,
            ends_at=now + request.get("timeout", 15),
            auto_pause=request.get("autoPause", False),
        )
        self._run(machine, image, request.get("envVars") or {}, "bridge" if online else "none")
        self.machines[identity] = machine
        _await_guest(machine.socket)
        return machine

    def _run(self, machine: Machine, image: str, env: dict[str, str], network: str) -> None:
        binds = [f"{machine.folder}:{_INSIDE}", f"{_GUEST}:{_INSIDE}/program:ro"]
        with _told():
            self._engine.create_container(
                image,
                entrypoint=["python3", "-I", "-B", "-c", _MAIN, f"{_INSIDE}/s"],
                name=self.name(machine.id),
                labels={LABEL: self.mark},
                user="0:0",
                working_dir="/",
                environment={"E2B_STUB_TOKEN": machine.token, "E2B_STUB_ENV": json.dumps(env)},
                host_config=self._engine.create_host_config(network_mode=network, binds=binds),
            )
            self._engine.start(self.name(machine.id))

    def name(self, identity: str) -> str:
        """Of the container."""
        return f"e2b-{self.mark}-{identity}"

    def find(self, identity: str) -> Machine:
        """404 where there is none (any more)."""
        machine = self.machines.get(identity)
        if machine is None:
            raise Problem(404, f'Sandbox "{identity}" not found')
        return machine

    def kill(self, machine: Machine) -> None:
        """Remove it."""
        self.machines.pop(machine.id, None)
        with _told():
            self._engine.remove_container(self.name(machine.id), force=True)
        shutil.rmtree(machine.folder, ignore_errors=True)
        self._sweep()

    def bury(self, machine: Machine) -> bool:
        """Forget it where its container has ended by itself, and say whether that is so."""
        try:
            found = self._engine.inspect_container(self.name(machine.id))
        except NotFound:
            return True
        if not found["State"]["Running"]:
            self.kill(machine)
        return not found["State"]["Running"]

    def pause(self, machine: Machine) -> None:
        """In place: its processes stand still."""
        with _told():
            self._engine.pause(self.name(machine.id))
        machine.state = "paused"

    def resume(self, machine: Machine) -> None:
        """They go on."""
        with _told():
            self._engine.unpause(self.name(machine.id))
        machine.state = "running"

    def expire(self) -> None:
        """Kill or pause those whose time is up. A paused one has no time."""
        for machine in list(self.machines.values()):
            if machine.state == "running" and machine.ends_at < time.time():
                (self.pause if machine.auto_pause else self.kill)(machine)

    # -- snapshots --------------------------------------------------------------------------------------------------

    def freeze(self, machine: Machine, names: list[str], with_memory: bool) -> Frozen:
        """Commit it: files only, whatever was asked for; the box goes on."""
        identity = uuid.uuid4().hex[:20]
        repository = f"swe-sdk-e2b-stub/{self.mark}"
        with _told():
            self._engine.commit(self.name(machine.id), repository, identity, conf={"Labels": {LABEL: self.mark}})
        image = f"{repository}:{identity}"
        self.frozen[identity] = Frozen(identity, names, machine.id, image, time.time(), with_memory)
        return self.frozen[identity]

    def forget(self, frozen: Frozen) -> None:
        """A container that stands on it keeps its layers until it goes."""
        del self.frozen[frozen.id]
        self._has_nameless = True
        with _told():
            self._engine.remove_image(frozen.image, force=True)

    def _sweep(self) -> None:
        """Remove images without a name that nothing needs any more."""
        if self._has_nameless:
            filters = {"label": f"{LABEL}={self.mark}", "dangling": True}
            nameless = self._engine.images(filters=filters, quiet=True)
            for image in nameless:
                with suppress(APIError):
                    self._engine.remove_image(image)
            self._has_nameless = bool(self._engine.images(filters=filters, quiet=True))

    def close(self) -> None:
        """Leave nothing."""
        for machine in list(self.machines.values()):
            self.kill(machine)
        for frozen in list(self.frozen.values()):
            self.forget(frozen)
        self._sweep()


_MAIN = f"import sys; sys.path.insert(0, {_INSIDE + '/program'!r}); import guest; guest.main(sys.argv[1])"


@contextmanager
def _told() -> Iterator[None]:
    """What the engine refuses is a 500 of ours."""
    try:
        yield
    except APIError as error:
        raise Problem(500, str(error.explanation)) from error


def _await_guest(path: Path) -> None:
    deadline = time.monotonic() + _READY_S
    while time.monotonic() < deadline:
        with socket.socket(socket.AF_UNIX) as guest:
            try:
                return guest.connect(str(path))
            except OSError:
                time.sleep(0.005)
    raise Problem(500, "the sandbox did not start")
