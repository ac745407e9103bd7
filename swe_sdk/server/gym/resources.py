"""The endpoints of a resources server: sessions with a sandbox on loan, and their verdicts."""

from __future__ import annotations

from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from swe_sdk.checkpoint.codes import refuse
from swe_sdk.model.ids import content_key
from swe_sdk.server.answering import Work, answered
from swe_sdk.server.bodies import parsed
from swe_sdk.server.gym.attempts import require_same, session_cookie, with_attempts
from swe_sdk.server.gym.contract import (
    ResourcesCloseReply,
    ResourcesCloseRequest,
    ResourcesSeedRequest,
    ResourcesVerifyRequest,
    TaskId,
)
from swe_sdk.server.gym.front import StillOpen
from swe_sdk.server.gym.judging import Judge
from swe_sdk.server.gym.sessions import Sessions
from swe_sdk.server.models import GradeRequest, VerifyRequest
from swe_sdk.server.posts import Posts, session_echo
from swe_sdk.server.service import Service
from swe_sdk.server.tasks import FoundTask
from swe_sdk.server.validation import validated
from swe_sdk.server.wire import RESTART, VERIFY

_OF_A_SESSION = "episode_id"
"""A body that has it is of a session; any other is answered as a verifier without sessions does."""
_TASK = "task"
"""The key of ``task_data`` under which a whole task of ours stands."""


class ResourcesPosts:
    """What is done with the bodies."""

    def __init__(self, service: Service, sessions: Sessions, judge: Judge) -> None:
        self._service = service
        self._sessions = sessions
        self._judge = judge
        self._plain = Posts(service)
        self._still_open = StillOpen(service)

    def routes(self) -> list[Route]:
        """Those of sessions, and the same below the path of an attempt."""
        return with_attempts({"/seed_session": self.seed, "/verify": self.verify, "/close_session": self.close})

    async def seed(self, request: Request) -> Response:
        """Make a session, and lend its sandbox."""
        headers: dict[str, str] = {}

        def read(body: bytearray) -> Work:
            told = parsed(body)
            if not _is_of_a_session(told):
                return session_echo(told)
            asked = validated(ResourcesSeedRequest, told)
            require_same(request, asked.episode_id)
            return partial(self._seed, asked, self._found(asked.task_id, asked.task_data), headers)

        response = await answered(self._service, request, read)
        response.headers.update(headers)
        return response

    async def verify(self, request: Request) -> Response:
        """Say what an attempt is worth."""

        def read(body: bytearray) -> Work:
            told = parsed(body)
            if not _is_of_a_session(told):
                self._service.require_open()
                return self._plain.verification(told)
            asked = validated(ResourcesVerifyRequest, told)
            require_same(request, asked.episode_id)
            return partial(self._verify, asked, told["verification_input"])

        return await answered(self._still_open, request, read)

    async def close(self, request: Request) -> Response:
        """End a session."""

        def read(body: bytearray) -> Work:
            told = parsed(body)
            if not _is_of_a_session(told):
                return session_echo(told)
            asked = validated(ResourcesCloseRequest, told)
            require_same(request, asked.episode_id)
            return partial(self._close, asked)

        return await answered(self._still_open, request, read)

    async def _seed(self, asked: ResourcesSeedRequest, found: FoundTask, headers: dict[str, str]) -> dict[str, Any]:
        reply = await self._sessions.seed(asked.episode_id, found, asked.resources_session_id)
        headers[VERIFY] = "replay"
        headers.update({RESTART: "1"} if self._sessions.participant.mode == "restart_only" else {})
        # nothing here needs it; NeMo Gym's environment servers take a seed without a cookie for a failed one
        headers["Set-Cookie"] = session_cookie("resources_session_id", reply.resources_session_id)
        return reply.model_dump(mode="json")

    async def _verify(self, asked: ResourcesVerifyRequest, echo: dict[str, Any]) -> dict[str, Any]:
        """The same answer for the same question; a session has one verdict."""
        session, digest = self._sessions.of_episode(asked.episode_id), content_key(echo)
        response = asked.verification_input.response
        async with session.lock:
            if session.answer is None:
                async with self._sessions.at_work(session, asked.episode_id) as box:
                    submission = await self._judge.submission(session, box, response)
                with self._sessions.using(session):  # no checkpoint waits for tests: they may be run again
                    told = await self._judge.verification(session, submission, response)
                if told["mask_sample"]:
                    return {**echo, **told}  # what was no measurement may be asked for again
                session.answer = digest, {**echo, **told}
            known, answer = session.answer
        if known != digest:
            raise refuse("checkpoint_conflict", f"{asked.episode_id} was verified already, with another response")
        return answer

    async def _close(self, asked: ResourcesCloseRequest) -> dict[str, Any]:
        await self._sessions.close(asked.resources_session_id, asked.episode_id)
        return ResourcesCloseReply(resources_session_id=asked.resources_session_id).model_dump(mode="json")

    def _found(self, task_id: TaskId, data: dict[str, Any]) -> FoundTask:
        """A loaded one of that id, else what the data holds. Raises an ``InputError``."""
        tasks = self._service.tasks
        if not data or task_id.task_id in tasks.loaded.ids:
            return FoundTask(tasks.loaded[task_id.task_id], "loaded")
        if _TASK in data:
            return tasks.of_grade(validated(GradeRequest, {"task": data[_TASK]}))
        row = {"responses_create_params": {}, "response": {}, **data}
        return tasks.of_verify(validated(VerifyRequest, row))


def _is_of_a_session(told: Any) -> bool:
    return isinstance(told, dict) and _OF_A_SESSION in told
