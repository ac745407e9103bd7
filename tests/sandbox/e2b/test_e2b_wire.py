"""The pure parts of the E2B client: streams, lines, names, and what answers mean."""

from __future__ import annotations

import json
import struct
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swe_sdk.errors import InputError, NoSpace, SandboxError
from swe_sdk.sandbox.providers.e2b.answers import failed_call, failure
from swe_sdk.sandbox.providers.e2b.connect import MAX_MESSAGE_BYTES, Decoder, End, WireError, envelope
from swe_sdk.sandbox.providers.e2b.lines import Lines
from swe_sdk.sandbox.providers.e2b.naming import found_snapshot, is_called, new_wire_name, snapshot_id, system_id
from swe_sdk.sandbox.providers.e2b.settings import read_settings
from swe_sdk.sandbox.providers.remote.failures import InUse, NotThere, Refused, Silent

_MESSAGES = st.lists(st.dictionaries(st.text(), st.text() | st.integers() | st.none(), max_size=3), max_size=5)


def _cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[begin:end] for begin, end in pairwise(edges)]


def _decoded(pieces: list[bytes]) -> list[Any]:
    decoder, found = Decoder(), []
    for piece in pieces:
        decoder.feed(piece)
        while (message := decoder.next()) is not None:
            found.append(message)
    return found


def _last(body: Any) -> bytes:
    data = json.dumps(body).encode()
    return struct.pack("!BI", 2, len(data)) + data


@given(_MESSAGES, st.lists(st.integers(min_value=0)))
def test_messages_arrive_however_they_are_cut(messages: list[dict[str, Any]], places: list[int]) -> None:
    stream = b"".join(map(envelope, messages)) + _last({})
    assert _decoded(_cut(stream, places)) == [*messages, End()]


@given(st.binary(), st.lists(st.integers(min_value=0)))
def test_any_bytes_are_messages_or_a_wire_error(data: bytes, places: list[int]) -> None:
    try:
        found = _decoded(_cut(data, places))
    except WireError:
        return
    assert all(isinstance(one, dict | End) for one in found)


def test_the_end_says_how_it_went() -> None:
    told = {"error": {"code": "deadline_exceeded", "message": "too late"}, "metadata": {}}
    assert _decoded([_last(told)]) == [End("deadline_exceeded", "too late")]
    assert _decoded([_last({"error": {}})]) == [End("unknown")]


@pytest.mark.parametrize(
    "head",
    [struct.pack("!BI", 1, 2) + b"{}", struct.pack("!BI", 0, MAX_MESSAGE_BYTES + 1), struct.pack("!BI", 0, 2) + b"[]"],
)
def test_what_is_no_message_is_refused(head: bytes) -> None:
    with pytest.raises(WireError):
        _decoded([head])


@given(st.lists(st.binary().filter(lambda line: b"\n" not in line)), st.lists(st.integers(min_value=0)))
def test_lines_arrive_however_they_are_cut(lines: list[bytes], places: list[int]) -> None:
    heard: list[str] = []
    hearing = Lines(heard.append)
    for piece in _cut(b"".join(line + b"\n" for line in lines), places):
        hearing.feed(piece)
    assert heard == [line.decode("ascii", "replace") for line in lines]


def test_a_line_is_heard_before_the_next_one_comes() -> None:
    heard: list[str] = []
    hearing = Lines(heard.append)
    hearing.feed(b"one\ntw")
    assert heard == ["one"]


@given(st.from_regex(r"snap-[a-z0-9-]{1,20}", fullmatch=True), st.sampled_from(["{}", "team/{}:default", "{}:v2"]))
def test_a_name_comes_back_from_what_the_system_makes_of_it(name: str, form: str) -> None:
    wire_name = new_wire_name(name)
    listed = {"snapshotID": form.format(wire_name), "names": [form.format(wire_name)]}
    found = found_snapshot(listed)
    assert found is not None
    assert (found.name, found.is_ready) == (name, True)
    assert found.created_at == pytest.approx(int(wire_name.rpartition("-")[2]) / 1000)
    assert is_called(listed, wire_name)
    assert not is_called(listed, new_wire_name(f"{name}x"))


@given(st.text(min_size=1))
def test_an_id_is_one_word_of_a_path_and_comes_back(told: str) -> None:
    word = snapshot_id({"snapshotID": told})
    assert "/" not in word
    assert system_id(word) == told


@pytest.mark.parametrize("names", [[], None, ["somebody-elses"], ["snap-1-at-yesterday"]])
def test_snapshots_of_others_are_not_ours(names: list[str] | None) -> None:
    assert found_snapshot({"snapshotID": "x", "names": names}) is None


@pytest.mark.parametrize(
    ("status", "text", "kind"),
    [
        (404, "", NotThere),
        (502, "The sandbox i1 was not found", NotThere),
        (502, "port is not open", Silent),
        (504, "", Silent),
        (409, "", InUse),
        (507, "", NoSpace),
        (401, "", Refused),
        (429, "", Refused),
        (503, "", Refused),
        (500, "", Refused),
    ],
)
def test_statuses_mean_what_they_mean(status: int, text: str, kind: type[SandboxError]) -> None:
    error = failure("do it", status, text)
    assert type(error) is kind
    assert "do it" in error.message


def test_refusals_say_what_to_do() -> None:
    assert "E2B_API_KEY" in failure("do it", 401, "").remedy
    assert "fewer" in failure("do it", 429, "").remedy


@pytest.mark.parametrize(
    ("code", "kind"),
    [("not_found", NotThere), ("unavailable", Silent), ("internal", Refused), ("of_tomorrow", Refused)],
)
def test_codes_mean_what_they_mean(code: str, kind: type[SandboxError]) -> None:
    assert type(failed_call("run", code, "why")) is kind


def test_settings_come_from_the_environment() -> None:
    environ = {"E2B_DOMAIN": "e2b.example", "SWE_SDK_E2B_DIALECT": "agentenv"}
    settings = read_settings({}, environ)
    assert settings.control == "https://api.e2b.example"
    assert settings.address_of("i1", None) == "https://49983-i1.e2b.example"
    assert settings.address_of("i1", "other.example") == "https://49983-i1.other.example"
    assert settings.dialect == "agentenv"
    assert read_settings({"sandbox_url": "http://gate/"}, environ).address_of("i1", "x") == "http://gate"


@pytest.mark.parametrize("given_settings", [{"dialect": "klingon"}, {"request_timeout_s": 0}, {"colour": "red"}])
def test_settings_that_cannot_be_are_the_callers_mistake(given_settings: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        read_settings(given_settings, {})
