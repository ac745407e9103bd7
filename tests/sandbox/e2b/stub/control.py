"""The REST interface of the stand-in, in two dialects: what ``e2b`` 2.63.0 uses, and what AgentENV serves.

AgentENV (its ``openapi.yml`` of August 2026) knows ``POST /sandboxes`` and ``/sandboxes-cold``, but no ``POST
/v2/sandboxes``; it pauses sandboxes whose time is up unless it is told otherwise, and its snapshots always hold memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from threading import RLock
from typing import Any
from urllib.parse import parse_qsl, unquote

from tests.sandbox.e2b.stub.containers import Containers, Frozen, Machine, Problem

Answer = tuple[int, Any, dict[str, str]]
ENVD_VERSION = "0.6.13"
_MOST_IN_A_PAGE = 3
"""So that a few are several pages."""
_SHAPE = {"cpuCount": 2, "memoryMB": 512, "diskSizeMB": 1024}


class Control:
    """One method a route; each answers with a status, a body, and headers."""

    def __init__(self, containers: Containers, dialect: str) -> None:
        self.containers = containers
        self.is_agentenv = dialect == "agentenv"
        self.refusals: list[tuple[str, int, float | None]] = []
        """Answers given instead of the next ones: the beginning of ``METHOD /path``, a status, and ``Retry-After``."""
        self._made: dict[str, str] = {}
        self._lock = RLock()

    def answer(self, method: str, path: str, query: dict[str, str], body: Any, headers: dict[str, str]) -> Answer:
        """To one request."""
        refused = self._refused(f"{method} {path}")
        if refused is not None:
            return refused
        if headers.get("x-api-key") != "e2b_" + "0" * 40:
            return 401, {"code": 401, "message": "Invalid API key"}, {}
        self.containers.expire()
        try:
            return self._route(method, [unquote(part) for part in path.split("/")[1:]], query, body or {}, headers)
        except Problem as problem:
            return problem.status, {"code": problem.status, "message": str(problem)}, {}
        finally:
            if method != "GET":
                with self._lock:
                    self.containers.write_down()

    def _refused(self, line: str) -> Answer | None:
        for refusal in self.refusals:
            if line.startswith(refusal[0]):
                self.refusals.remove(refusal)
                after = {} if refusal[2] is None else {"Retry-After": str(refusal[2])}
                return refusal[1], {"code": refusal[1], "message": "as the test wants it"}, after
        return None

    def _route(
        self, method: str, parts: list[str], query: dict[str, str], body: Any, headers: dict[str, str]
    ) -> Answer:
        match method, parts:
            case "GET", ["v2", "sandboxes"]:
                return self._listed(query)
            case "POST", ["v2", "sandboxes"]:
                return (405, None, {}) if self.is_agentenv else self._create(body, headers)
            case "POST", ["sandboxes"]:
                return self._create({"autoPause": True, **body} if self.is_agentenv else body, headers)
            case "POST", ["sandboxes-cold"] if self.is_agentenv:
                return self._create_cold({"autoPause": True, **body})
            case "GET", ["snapshots"]:
                return self._snapshots(query)
            case "DELETE", ["templates", identity]:
                return self._delete_snapshot(identity)
            case _, ["sandboxes", identity, *rest]:
                return self._of_one(method, self.containers.find(identity), rest, body)
            case "POST", ["v2", "sandboxes", identity, "connect"] if not self.is_agentenv:
                return self._connect(self.containers.find(identity), body)
        return 404, None, {}

    def _of_one(self, method: str, machine: Machine, rest: list[str], body: Any) -> Answer:
        routes: dict[tuple[str, ...], Callable[[], Answer]] = {
            ("GET",): lambda: (200, self._detail(machine), {}),
            ("DELETE",): lambda: self._killed(machine),
            ("POST", "pause"): lambda: self._pause(machine),
            ("POST", "connect"): lambda: self._connect(machine, body),
            ("POST", "timeout"): lambda: self._renew(machine, body),
            ("POST", "snapshots"): lambda: self._freeze(machine, body),
            ("POST", "fork"): lambda: self._fork(machine, body),
        }
        route = routes.get((method, *rest))
        return (404, None, {}) if route is None else route()

    # -- sandboxes --------------------------------------------------------------------------------------------------

    def _create(self, body: Any, headers: dict[str, str]) -> Answer:
        if "templateID" not in body:
            raise Problem(400, "Error when parsing request: templateID is required")
        key = headers.get("idempotency-key")
        if key in self._made and not self.is_agentenv:
            return 201, self._handle(self.containers.find(self._made[key])), {}
        image = self._image(body["templateID"])
        online = body.get("allow_internet_access", True)
        machine = self.containers.create(body["templateID"], image, body, online)
        if key:
            self._made[key] = machine.id
        return 201, self._handle(machine), {}

    def _create_cold(self, body: Any) -> Answer:
        if body["image"] not in self.containers.templates:
            raise Problem(400, f"failed to resolve image {body['image']}: not found")
        image = self.containers.templates[body["image"]]
        return 201, self._handle(self.containers.create("", image, body, body.get("allowInternetAccess", True))), {}

    def _image(self, template: str) -> str:
        found = self._find_snapshot(template)
        image = found.image if found is not None else self.containers.templates.get(template)
        if image is None:
            raise Problem(404, f"template '{template}' not found")
        return image

    def _killed(self, machine: Machine) -> Answer:
        self.containers.kill(machine)
        return 204, None, {}

    def _pause(self, machine: Machine) -> Answer:
        if machine.state == "paused":
            raise Problem(409, f"sandbox {machine.id} is not running")
        self.containers.pause(machine)
        return 204, None, {}

    def _connect(self, machine: Machine, body: Any) -> Answer:
        status = 200
        if machine.state == "paused":
            status = 201
            self.containers.resume(machine)
        machine.ends_at = max(machine.ends_at, time.time() + body.get("timeout", 300))
        return status, self._handle(machine), {}

    def _renew(self, machine: Machine, body: Any) -> Answer:
        if machine.state == "paused":
            raise Problem(404, f"sandbox {machine.id} is not running")
        machine.ends_at = time.time() + body["timeout"]
        return 204, None, {}

    def _fork(self, machine: Machine, body: Any) -> Answer:
        if machine.state == "paused":
            raise Problem(409, f"sandbox {machine.id} is not running")
        frozen = self.containers.freeze(machine, [], True)
        request = {"metadata": machine.metadata, "timeout": body.get("timeout", 15)}
        made = [
            {"sandbox": self._handle(self.containers.create(frozen.id, frozen.image, request, False))}
            for _ in range(body.get("count", 1))
        ]
        self.containers.forget(frozen)
        return 201, made, {}

    def _listed(self, query: dict[str, str]) -> Answer:
        wanted = {unquote(name): unquote(value) for name, value in parse_qsl(query.get("metadata", ""))}
        states = query.get("state", "running,paused").split(",")
        found = [
            self._detail(machine, listed=True)
            for machine in sorted(self.containers.machines.values(), key=lambda machine: -machine.started_at)
            if machine.state in states and wanted.items() <= machine.metadata.items()
        ]
        return _page(found, query)

    # -- snapshots --------------------------------------------------------------------------------------------------

    def _freeze(self, machine: Machine, body: Any) -> Answer:
        if machine.state == "paused":
            raise Problem(404, f"sandbox {machine.id} is not running")
        name = body.get("name")
        names = [] if name is None else [name] if self.is_agentenv else [f"team/{name}:default"]
        with self._lock:
            with_memory = self.is_agentenv or body.get("memory", True)
            return 201, self._snapshot(self.containers.freeze(machine, names, with_memory)), {}

    def _snapshots(self, query: dict[str, str]) -> Answer:
        found = [
            self._snapshot(frozen)
            for frozen in self.containers.frozen.values()
            if query.get("sandboxID", frozen.sandbox) == frozen.sandbox
        ]
        return _page(found, query)

    def _delete_snapshot(self, identity: str) -> Answer:
        found = self._find_snapshot(identity)
        if found is None:
            raise Problem(404, f"template '{identity}' not found")
        if not self.is_agentenv and any(self._stands_on(machine, found) for machine in self._paused()):
            raise Problem(400, f"template '{identity}' has paused sandboxes")
        self.containers.forget(found)
        return 204, None, {}

    def _paused(self) -> list[Machine]:
        return [machine for machine in self.containers.machines.values() if machine.state == "paused"]

    def _stands_on(self, machine: Machine, frozen: Frozen) -> bool:
        return self._find_snapshot(machine.template) is frozen

    def _find_snapshot(self, identity: str) -> Frozen | None:
        plain = identity.removesuffix(":default").rpartition("/")[2]
        for frozen in self.containers.frozen.values():
            if plain == frozen.id or any(plain == n.removesuffix(":default").rpartition("/")[2] for n in frozen.names):
                return frozen
        return None

    # -- shapes -----------------------------------------------------------------------------------------------------

    def _handle(self, machine: Machine) -> dict[str, Any]:
        return {
            "sandboxID": machine.id,
            "templateID": machine.template,
            "clientID": "stub",
            "envdVersion": ENVD_VERSION,
            "envdAccessToken": machine.token,
            "domain": None,
            "trafficAccessToken": None,
        }

    def _detail(self, machine: Machine, *, listed: bool = False) -> dict[str, Any]:
        secrets = {} if listed else {"envdAccessToken": machine.token, "domain": None}
        return {
            "sandboxID": machine.id,
            "templateID": machine.template,
            "clientID": "stub",
            "envdVersion": ENVD_VERSION,
            "startedAt": _time(machine.started_at),
            "endAt": _time(machine.ends_at),
            "state": machine.state,
            "metadata": machine.metadata,
            **_SHAPE,
            **secrets,
        }

    def _snapshot(self, frozen: Frozen) -> dict[str, Any]:
        if self.is_agentenv:
            when = _time(frozen.created_at)
            return {"snapshotID": frozen.id, "names": frozen.names, "createdAt": when, "updatedAt": when, **_SHAPE}
        return {"snapshotID": frozen.names[0] if frozen.names else f"{frozen.id}:default", "names": frozen.names}


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def _page(items: list[Any], query: dict[str, str]) -> Answer:
    begin, limit = int(query.get("nextToken") or 0), min(int(query.get("limit") or 100), _MOST_IN_A_PAGE)
    more = {"X-Next-Token": str(begin + limit)} if len(items) > begin + limit else {}
    return 200, items[begin : begin + limit], more
