"""What a link says: which view, of what, filtered and sorted how. The whole state of a viewer is its URL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, get_args
from urllib.parse import parse_qsl, urlencode

from pydantic import Field

from swe_sdk.model.record import Record
from swe_sdk.store.filters import RolloutFilter
from swe_sdk.store.rows import RolloutStatus

_LONGEST = 8000
_MOST_PAGES = 10**9
_STATUSES: tuple[str, ...] = get_args(RolloutStatus)
_LISTS = {
    "run": "run",
    "status": "status",
    "mask": "mask_kind",
    "mask_stage": "mask_stage",
    "family": "family",
    "repo": "repo",
    "agent": "agent",
    "model": "model",
    "provider": "provider",
    "task": "instance_id",
}
"""Keys of the URL that may be there several times, and their fields."""
_WORDS = {"view": "view", "rollout": "rollout", "tab": "tab", "q": "text", "sort": "sort"}
_OF_THE_PAGE = ("theme", "token")
"""Not of the state: how it looks, and who may see it."""
_KEY_OF = {field: key for key, field in {**_LISTS, **_WORDS, "attempt": "attempt", "page": "page"}.items()}


class State(Record):
    """One place in the dashboard. Fields that are empty are not in the URL."""

    view: str = "runs"
    run: tuple[str, ...] = ()
    rollout: str = ""
    """Id of the rollout that is looked at, for the views that show one."""
    attempt: int | None = None
    tab: str = ""
    status: tuple[str, ...] = ()
    mask_kind: tuple[str, ...] = ()
    mask_stage: tuple[str, ...] = ()
    family: tuple[str, ...] = ()
    repo: tuple[str, ...] = ()
    agent: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    provider: tuple[str, ...] = ()
    instance_id: tuple[str, ...] = ()
    text: str = ""
    sort: str = ""
    """A column; with ``-`` in front, the largest first."""
    page: int = 1
    more: dict[str, str] = Field(default_factory=dict)
    """Whatever else a view has put there: read it with :meth:`get` and :meth:`number`."""
    problems: tuple[str, ...] = ()
    """What in the URL could not be understood, and was left out; for the page to tell."""

    @classmethod
    def parse(cls, query: str) -> State:
        """The state of a URL's query, whoever wrote it. Never fails: what makes no sense is left out, and told."""
        told: dict[str, Any] = {"more": {}, "problems": []}
        text = query[:_LONGEST].lstrip("?").encode("utf-8", "replace").decode()  # a message may have half a character
        for key, value in parse_qsl(text, keep_blank_values=False):
            _take(told, key, value)
        lists = {field: tuple(dict.fromkeys(told[field])) for field in _LISTS.values() if field in told}
        return cls(**{**told, **lists, "problems": tuple(told["problems"])})

    @property
    def query(self) -> str:
        """Its URL's query, without the question mark; equal for equal states."""
        return urlencode(list(self.pairs()))

    @property
    def filter(self) -> RolloutFilter:
        """Which rollouts it is about."""
        fields = {field: getattr(self, field) for field in (*_LISTS.values(), "text")}
        return RolloutFilter.model_validate(fields)

    @property
    def is_filtered(self) -> bool:
        """Whether it is about some rollouts only; the choice of runs does not count."""
        return self.filter.model_copy(update={"run": ()}) != RolloutFilter()

    @property
    def sorted_by(self) -> tuple[str, bool]:
        """The column, and whether the largest comes first."""
        return self.sort.removeprefix("-"), self.sort.startswith("-")

    def but(self, **changes: Any) -> State:
        """The same with some fields changed; names that are no fields go to ``more`` (None takes them out).

        Another filter or sort begins with the first page.
        """
        fields = {name: value for name, value in changes.items() if name in State.model_fields}
        others = {name: value for name, value in changes.items() if name not in State.model_fields}
        more = {name: str(value) for name, value in {**self.more, **others}.items() if value not in (None, "")}
        return self.model_copy(update={"page": 1, "problems": (), **fields, "more": more})

    def goto(self, view: str, **changes: Any) -> State:
        """Another view of the same runs: nothing else is taken along."""
        return State(view=view, run=self.run).but(**changes)

    def get(self, name: str, default: str = "", among: Iterable[str] | None = None) -> str:
        """A parameter of a view; ``default`` where it is missing or none of those."""
        value = self.more.get(name, default)
        return value if among is None or value in among else default

    def number(self, name: str, default: int = 0) -> int:
        """A parameter of a view that counts from 0; ``default`` where it is no such number."""
        return _number(self.more.get(name, ""), 2**62) if name in self.more else default

    def pairs(self) -> Iterable[tuple[str, str]]:
        """Keys and values as they stand in the URL."""
        for key, field in _WORDS.items():
            if value := getattr(self, field):
                yield key, value
        for key, field in _LISTS.items():
            yield from ((key, value) for value in getattr(self, field))
        if self.attempt is not None:
            yield "attempt", str(self.attempt)
        if self.page > 1:
            yield "page", str(self.page)
        yield from sorted(self.more.items())


def key_of(field: str) -> str:
    """The key in the URL of a field of a state: the name of an input of a form."""
    return _KEY_OF.get(field, field)


def fields_of(pairs: Mapping[str, Any]) -> str:
    """A query of plain pairs; for tests and scripts that make links."""
    return urlencode(pairs, doseq=True)


def _take(told: dict[str, Any], key: str, value: str) -> None:
    if key in _LISTS:
        if key == "status" and value not in _STATUSES:
            told["problems"].append(f"there is no status {value!r}")
        else:
            told.setdefault(_LISTS[key], []).append(value)
    elif key in _WORDS:
        told[_WORDS[key]] = value
    elif key in ("attempt", "page"):
        _take_number(told, key, value)
    elif key not in _OF_THE_PAGE:
        told["more"][key] = value


def _take_number(told: dict[str, Any], key: str, value: str) -> None:
    number = _number(value, _MOST_PAGES)
    if number < 1:
        told["problems"].append(f"{key}={value[:40]!r} is not a number from 1 on")
    else:
        told[key] = number


def _number(value: str, most: int) -> int:
    return min(int(value), most) if value.isascii() and value.isdecimal() and len(value) < 20 else 0
