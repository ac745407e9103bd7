"""The answers of the control plane, as far as they are used; what is of another shape is a refusal."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, TypeVar

from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict  # pydantic reads no other one before Python 3.12

from swe_sdk.sandbox.providers.remote.failures import Refused

if TYPE_CHECKING:
    import httpx


class Sandbox(TypedDict):
    """One sandbox. Its id is a part of paths and of names of hosts."""

    sandboxID: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    state: NotRequired[str | None]
    metadata: NotRequired[dict[str, Any] | None]
    domain: NotRequired[Annotated[str, Field(pattern=r"^[A-Za-z0-9.-]*(:[0-9]+)?$")] | None]
    envdAccessToken: NotRequired[str | None]


class Snapshot(TypedDict):
    """One snapshot."""

    snapshotID: str
    names: NotRequired[list[str] | None]


T = TypeVar("T")


def read(response: httpx.Response, kind: type[T]) -> T:
    """The body of an answer; ``Refused`` where it is something else."""
    try:
        found: T = _reader(kind).validate_json(response.content)  # type: ignore[arg-type]  # a TypedDict is hashable
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, problem["loc"]))
        raise Refused(f"the answer to {response.request.url} is not as expected: {where} {problem['msg']}") from None
    return found


@cache
def _reader(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
