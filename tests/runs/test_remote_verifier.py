"""A verifier elsewhere: its outcomes are taken as they are, and its absence is told from its answers."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import anyio
import pytest

from swe_sdk.errors import InputError, VerifierError, VerifierUnreachable
from swe_sdk.grading.classify import classify
from swe_sdk.model.outcome import Outcome, PatchReport, TestReport
from swe_sdk.model.patch import Patch
from swe_sdk.model.policy import DEFAULT_POLICY
from swe_sdk.recipes.dataset import load_tasks
from swe_sdk.runs.remote_verifier import open_verifier
from swe_sdk.server.models import ErrorDetail, ErrorResponse, GradeRequest, GradeResponse

pytestmark = pytest.mark.anyio
TASK = load_tasks("mini")["mini__calc-1"]
PATCH = Patch.of(b"--- a\n+++ b\n\xff\n")
OUTCOME = Outcome(
    instance_id=TASK.instance_id,
    family=TASK.family,
    status="resolved",
    reward=1.0,
    patch=PatchReport(exists=True, applied=True, sha256=PATCH.sha256),
    tests=TestReport(
        fail_to_pass=dict.fromkeys(TASK.grading.fail_to_pass, "PASSED"),
        pass_to_pass=dict.fromkeys(TASK.grading.pass_to_pass, "PASSED"),
    ),
    artifacts={"log": "/there/test.log"},
)
UNKNOWN = (404, ErrorResponse(error=ErrorDetail(code="unknown_task", detail="not loaded")).model_dump_json())
NOT_ALONG = (422, ErrorResponse(error=ErrorDetail(code="invalid_request", detail="a folder")).model_dump_json())
OTHER_TESTS = (200, GradeResponse(outcome=OUTCOME.model_copy(update={"tests": TestReport()})).model_dump_json())
GOOD = (200, GradeResponse(outcome=OUTCOME).model_dump_json())
BUSY = (503, ErrorResponse(error=ErrorDetail(code="draining", detail="told to stop")).model_dump_json())
REFUSED = (400, ErrorResponse(error=ErrorDetail(code="bad", detail="no such", remedy="look")).model_dump_json())
HANG, CUT = (0, "hang"), (0, "cut")


class Scripted:
    """Answers posts by a list, its last entry for ever; keeps the bodies."""

    def __init__(self, *answers: tuple[int, str]) -> None:
        self.answers, self.bodies, self.paths, self.tokens = list(answers), [], [], []  # type: ignore[var-annotated]
        self.released = threading.Event()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                owner.bodies.append(self.rfile.read(int(self.headers["content-length"])))
                owner.paths.append(self.path)
                owner.tokens.append(self.headers.get("authorization"))
                status, body = owner.answers.pop(0) if len(owner.answers) > 1 else owner.answers[0]
                if (status, body) == HANG:
                    owner.released.wait(30)
                if status == 0:
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                self.send_response(status)
                self.send_header("content-length", str(len(body.encode())))
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})

    def __enter__(self) -> Scripted:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.released.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


async def asked(url: str, *, deadline_s: float = 10.0, patience_s: float = 5.0, **options: Any) -> Outcome:
    async with open_verifier(url, patience_s=patience_s, **options) as verifier:
        return await verifier.verify(TASK, PATCH, deadline_s=deadline_s)


@pytest.fixture
def nobody() -> Iterator[str]:
    """The URL of a port where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


async def test_the_task_and_the_bytes_of_the_patch_arrive_and_the_outcome_comes_back() -> None:
    with Scripted(GOOD) as there:
        found = await asked(there.url, tests_timeout_s=77.0, token="t0p")
    request = GradeRequest.model_validate_json(there.bodies[0])
    assert (there.paths, there.tokens) == (["/grade"], ["Bearer t0p"])
    assert request.patch == PATCH.data
    assert request.eval_timeout_s == 77.0
    assert type(TASK).model_validate(request.task) == TASK
    assert (found.status, found.patch, found.key) == (OUTCOME.status, OUTCOME.patch, OUTCOME.key)
    assert found.artifacts == {}, "its files are not on this machine"
    assert found.evidence["verifier"] == {"url": there.url, "artifacts": OUTCOME.artifacts}


@pytest.mark.parametrize("first", [BUSY, CUT, (429, "later"), (502, "<html>")])
async def test_not_now_is_asked_again(first: tuple[int, str]) -> None:
    with Scripted(first, first, GOOD) as there:
        assert (await asked(there.url)).resolved
    assert len(there.bodies) == 3
    assert len(set(there.bodies)) == 1


async def test_who_is_busy_is_waited_for_until_the_deadline() -> None:
    busy = (429, ErrorResponse(error=ErrorDetail(code="too_busy", detail="later")).model_dump_json())
    with Scripted(*[busy] * 3, GOOD) as there:
        assert (await asked(there.url, patience_s=0.9)).resolved, "0.2 + 0.4 + 0.8 s of pauses"
    with Scripted(*[BUSY] * 3, GOOD) as there, pytest.raises(VerifierUnreachable, match="draining"):
        await asked(there.url, patience_s=0.9)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (REFUSED, "bad: no such (look)"),
        (OTHER_TESTS, "other tests"),
        ((500, "oops"), "500"),
        ((200, "{}"), "no verdict"),
        ((200, "<html>"), "no verdict"),
        ((200, GradeResponse(outcome=OUTCOME.model_copy(update={"instance_id": "x"})).model_dump_json()), "'x'"),
    ],
)
async def test_an_answer_that_is_no_verdict_is_an_answer(answer: tuple[int, str], told: str) -> None:
    with Scripted(answer) as there, pytest.raises(VerifierError) as caught:
        await asked(there.url)
    assert not isinstance(caught.value, VerifierUnreachable)
    assert told in str(caught.value)
    assert len(there.bodies) == 1, "asking again would bring the same"
    assert classify(caught.value, "verify").kind == "verifier_failed"


@pytest.mark.parametrize("refusal", [UNKNOWN, NOT_ALONG])
async def test_a_verifier_that_takes_no_tasks_along_is_asked_by_name_from_then_on(refusal: tuple[int, str]) -> None:
    with Scripted(refusal, GOOD) as there:
        async with open_verifier(there.url) as verifier:
            assert (await verifier.verify(TASK, PATCH, deadline_s=10)).resolved
            assert (await verifier.verify(TASK, PATCH, deadline_s=10)).resolved
    asked = [GradeRequest.model_validate_json(body) for body in there.bodies]
    assert [each.instance_id for each in asked] == [None, TASK.instance_id, TASK.instance_id]
    assert [each.patch for each in asked] == [PATCH.data] * 3


async def test_where_neither_is_taken_the_first_refusal_is_told() -> None:
    with Scripted(NOT_ALONG, UNKNOWN) as there, pytest.raises(VerifierError, match="a folder"):
        await asked(there.url)
    assert len(there.bodies) == 2


async def test_nobody_there_is_a_mask_that_is_worth_a_retry(nobody: str) -> None:
    began = time.monotonic()
    with pytest.raises(VerifierUnreachable, match=r"in \d+ tries") as caught:
        await asked(nobody, patience_s=1.0)
    assert time.monotonic() - began < 5
    failure = classify(caught.value, "verify")
    decision = DEFAULT_POLICY.decide(failure.stage, failure.kind)
    assert (failure.kind, decision.verdict, decision.retryable) == ("verifier_unreachable", "masked", True)


@pytest.mark.parametrize("answer", [HANG, BUSY])
async def test_the_deadline_is_kept_however_patient_it_is(answer: tuple[int, str]) -> None:
    began = time.monotonic()
    with Scripted(answer) as there:
        with pytest.raises(VerifierUnreachable, match="within 1 s"):
            await asked(there.url, deadline_s=1.0, patience_s=60.0)
        assert time.monotonic() - began < 3


async def test_it_can_be_cancelled() -> None:
    with Scripted(HANG) as there:
        with anyio.move_on_after(0.3) as scope:
            await asked(there.url)
        assert scope.cancelled_caught


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://x", "/tmp/socket", "http://"])
async def test_no_url(url: str) -> None:
    with pytest.raises(InputError, match="http://127"):
        await asked(url)


async def test_a_path_in_the_url_is_kept() -> None:
    with Scripted(GOOD) as there:
        await asked(f"{there.url}/behind/proxy/")
    assert there.paths == ["/behind/proxy/grade"]
    assert json.loads(there.bodies[0])["patch"]
