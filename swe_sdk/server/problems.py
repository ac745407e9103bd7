"""Answers of 400 and above: one shape, a short list of codes, and what to do."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from swe_sdk.errors import InputError, SweError, UnknownTask
from swe_sdk.server.admission import TooBusy
from swe_sdk.server.models import ErrorDetail, ErrorResponse

CODES: Mapping[str, tuple[int, str]] = {
    "bad_json": (400, "the body is not JSON, or is nested too deep"),
    "unauthorized": (401, "the bearer token is missing or wrong"),
    "unknown_task": (404, "the server has loaded no task of that id, and takes none along with requests"),
    "not_found": (404, "there is nothing at that path"),
    "method_not_allowed": (405, "the path takes another method; the header Allow names it"),
    "body_timeout": (408, "the body did not arrive in time"),
    "body_too_large": (413, "the body is larger than the server takes"),
    "unsupported_encoding": (415, "the body is compressed"),
    "invalid_request": (422, "a field is missing or wrong, or the task is"),
    "too_busy": (429, "the server has too much to do; the header Retry-After says when to come again"),
    "internal_error": (500, "a defect of the server"),
    "draining": (503, "the server was told to stop; another one may take the post"),
}
"""Each code, its status, and its meaning."""


class Problem(Exception):
    """A request that is answered with an error."""

    def __init__(self, code: str, detail: str, *, remedy: str = "", headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = CODES[code][0]
        self.body = ErrorResponse(error=ErrorDetail(code=code, detail=_encodable(detail), remedy=_encodable(remedy)))
        self.headers = dict(headers or {})

    def response(self) -> Response:
        """As an answer."""
        body = self.body.model_dump_json(ensure_ascii=True)
        return Response(body, self.status, self.headers, media_type="application/json")


def _encodable(text: str) -> str:
    """An error may name what a request holds, and that may be text which no encoding knows."""
    return text.encode("utf-8", "backslashreplace").decode()


def problem_of(error: SweError) -> Problem:
    """What a client is told of an error of its request."""
    if isinstance(error, TooBusy):
        headers = {"Retry-After": str(error.retry_after_s)}
        return Problem("too_busy", error.message, remedy=error.remedy, headers=headers)
    if isinstance(error, UnknownTask):
        return Problem("unknown_task", error.message, remedy="load it at the server's start, or bring it along")
    code = "invalid_request" if isinstance(error, InputError) else "internal_error"
    return Problem(code, error.message, remedy=error.remedy)


async def on_http_exception(request: Request, error: Exception) -> Response:
    """Paths and methods that there are not."""
    assert isinstance(error, HTTPException)
    code = "method_not_allowed" if error.status_code == 405 else "not_found"
    return Problem(code, f"{request.method} {request.url.path}: {error.detail}", headers=error.headers).response()


async def on_defect(request: Request, error: Exception) -> Response:
    """Whatever else was raised; the server logs it."""
    detail = f"{type(error).__name__} while answering"
    return Problem("internal_error", detail, remedy="see the server's log").response()
