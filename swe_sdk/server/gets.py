"""The endpoints that only tell."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from swe_sdk.server.openapi import document
from swe_sdk.server.problems import Problem
from swe_sdk.server.service import Service


class Gets:
    """Each answers at once, whatever else goes on."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def health(self, request: Request) -> Response:
        """How the server is: 200 while it takes posts, 503 once it was told to stop."""
        shown = self._service.health()
        return JSONResponse(shown.model_dump(mode="json"), 200 if shown.status == "ok" else 503)

    async def metrics(self, request: Request) -> Response:
        """What Prometheus reads, for those who have the token."""
        try:
            self._service.require_token(request.headers.get("authorization"))
        except Problem as problem:
            return problem.response()
        assert self._service.metrics is not None
        text, media_type = self._service.metrics.exposition()
        return Response(text, headers={"Content-Type": media_type})

    async def openapi(self, request: Request) -> Response:
        """The OpenAPI document."""
        return JSONResponse(document(self._service.settings))

    async def reverify_mode(self, request: Request) -> Response:
        """That a post may be made again: NeMo Gym asks before it does."""
        return JSONResponse("stateless")
