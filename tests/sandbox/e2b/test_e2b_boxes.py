"""Boxes of both dialects: what is asked of the system, and what is left of it."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from swe_sdk.errors import (
    ImageNotFound,
    SandboxError,
    SnapshotBusy,
    SnapshotNotFound,
)
from swe_sdk.model.ids import new_id
from swe_sdk.sandbox.contract import SandboxSpec
from swe_sdk.sandbox.leases import LABEL_LEASE
from swe_sdk.sandbox.providers.e2b.provider import E2BProvider
from swe_sdk.sandbox.reaper import reap
from tests.sandbox.docker.images import debian_image
from tests.sandbox.e2b.conftest import MakeBox
from tests.sandbox.e2b.stubs import Server

pytestmark = pytest.mark.anyio
_CREATE = ("POST /v2/sandboxes", "POST /sandboxes", "POST /sandboxes-cold")


def _creations(server: Server) -> list[dict[str, object]]:
    asked = [one for one in server.requests() if one["request"] in _CREATE]
    return [one for one in asked if one["body"]]  # an empty one asks for the dialect


async def test_a_box_is_made_with_a_key_and_never_pauses_by_itself(server: Server, make_box: MakeBox) -> None:
    """A20: the two systems differ in what they do with a box whose time is up, so it is said."""
    first, second = await make_box(), await make_box()
    asked = _creations(server)
    assert len(asked) == 2
    for one in asked:
        body = one["body"]
        assert isinstance(body, dict)
        assert body["autoPause"] is False
        assert body["autoResume"] == {"enabled": False}
        assert body["timeout"] == 3600
        assert "envVars" not in body
    assert len({one["key"] for one in asked}) == 2
    assert first.id != second.id


async def test_an_image_is_a_template_or_a_cold_start(server: Server, make_box: MakeBox) -> None:
    await make_box(image=debian_image())
    (asked,) = _creations(server)
    body = asked["body"]
    assert isinstance(body, dict)
    if server.dialect == "agentenv":
        assert (asked["request"], body["image"]) == ("POST /sandboxes-cold", debian_image())
    else:
        assert (asked["request"], body["templateID"]) == ("POST /v2/sandboxes", debian_image())


async def test_an_unknown_template_is_named(server: Server, e2b_provider: E2BProvider) -> None:
    with pytest.raises(ImageNotFound, match="no-such-template"):
        await e2b_provider.create(SandboxSpec(image="no-such-template"))
    assert e2b_provider.boxes == {}


async def test_an_id_is_frozen_once(server: Server, make_box: MakeBox, e2b_provider: E2BProvider) -> None:
    """A8: a checkpoint that is asked for again, by whomever, has its snapshot already."""
    box, wanted = await make_box(), new_id("snap")
    first = await e2b_provider.snapshot(box, snapshot_id=wanted)
    await box.exec("echo later > /tmp/f")
    assert await e2b_provider.snapshot(box, snapshot_id=wanted) == first
    assert len(server.requests(f"POST /sandboxes/{box.handle}/snapshots")) == 1
    assert await e2b_provider.snapshots() == [first]
    fork = await make_box(snapshot=wanted)
    assert not (await fork.exec("cat /tmp/f")).ok
    await e2b_provider.delete_snapshot(wanted)
    await e2b_provider.delete_snapshot(wanted)
    assert await e2b_provider.snapshots() == []
    with pytest.raises(SnapshotNotFound):
        await make_box(snapshot=wanted)


async def test_a_fork_is_labelled_as_its_own(server: Server, make_box: MakeBox, e2b_provider: E2BProvider) -> None:
    """A9: nothing that looks for the boxes of one run finds those of another."""
    box = await make_box(labels={"run": "first", "task": "a"})
    snapshot = await e2b_provider.snapshot(box)
    fork = await make_box(snapshot=snapshot.id, labels={"run": "second"})
    engine = e2b_provider.engine
    found = {one.id: one.metadata for one in await engine.sandboxes({"swe_sdk.run": "second"})}
    assert list(found) == [fork.handle]
    assert (found[fork.handle][LABEL_LEASE], found[fork.handle]["swe_sdk.task"]) == (fork.lease.id, "")
    await e2b_provider.delete_snapshot(snapshot.id)


async def test_a_memory_snapshot_is_of_parked_programs_only(
    server: Server, make_box: MakeBox, e2b_provider: E2BProvider
) -> None:
    """A20: a fork of AgentENV goes on with the processes of its origin, so two would be one agent."""
    box = await make_box()
    pid = (await box.exec("sleep 600 > /dev/null 2>&1 & echo $!")).stdout.strip()
    await box.pause()
    if server.dialect == "agentenv":
        with pytest.raises(SnapshotBusy, match="sleep 600") as refused:
            await e2b_provider.snapshot(box)
        assert "fork" in refused.value.remedy
        assert server.requests(f"POST /sandboxes/{box.handle}/snapshots") == []
        await box.resume()
        await box.exec(f"kill {pid}; while [ -e /proc/{pid} ]; do sleep 0.02; done")
    snapshot = await e2b_provider.snapshot(box)
    (asked,) = server.requests(f"POST /sandboxes/{box.handle}/snapshots")
    assert asked["body"].get("memory") is (None if server.dialect == "agentenv" else False)
    await e2b_provider.delete_snapshot(snapshot.id)


async def test_nothing_sent_during_a_pause_runs_later(server: Server, make_box: MakeBox) -> None:
    """A6."""
    box = await make_box()
    await box.pause()
    with anyio.fail_after(1), pytest.raises(SandboxError, match="paused"):
        await box.exec("touch /tmp/ran")
    await box.resume()
    await anyio.sleep(0.3)
    assert not (await box.exec("ls /tmp/ran")).ok


async def test_a_paused_box_is_adopted_and_stays_paused(
    server: Server, make_box: MakeBox, e2b_provider: E2BProvider, e2b_state: Path
) -> None:
    """A17: ``connect`` would resume it."""
    box = await make_box(labels={"run": "r"})
    await box.exec("echo kept > /tmp/f")
    await box.pause()
    other = E2BProvider(state=e2b_state, **server.settings)
    await other.probe()
    with anyio.fail_after(1):
        adopted = await other.adopt(box.handle, box.spec)
    assert (await adopted.status(), server.requests(f"POST /v2/sandboxes/{box.handle}")) == ("paused", [])
    await adopted.resume()
    assert (await adopted.exec("cat /tmp/f")).stdout == "kept\n"
    (owned,) = [one for one in await other.owned() if one.handle == box.handle]
    assert owned.lease == adopted.lease.id, "it is told as the adopter's from now on"
    assert (await reap(other.leases, [other], only="e2b")).of("removed") == ()
    await adopted.close()
    await other.aclose()
    assert await box.status() == "lost"


async def test_a_box_whose_time_is_up_is_gone(server: Server, make_box: MakeBox, e2b_provider: E2BProvider) -> None:
    """A15: and until then it can be renewed."""
    box = await make_box()
    await e2b_provider.engine.renew(box.handle, 60.0)
    assert (await box.exec("true")).ok
    await e2b_provider.engine.renew(box.handle, 0.0)
    await anyio.sleep(0.01)
    assert await box.status() == "lost"
    assert (await box.exec("true")).status == "lost"
