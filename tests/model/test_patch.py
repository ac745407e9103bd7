"""A patch is bytes, from every source, through JSON and back."""

from __future__ import annotations

import hashlib
import json
import pickle

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from swe_sdk.model.patch import EMPTY_PATCH, Patch


def test_bytes_are_kept_and_at_most_a_final_newline_is_added() -> None:
    data = b"--- a/x\r\n+++ b/x\r\n@@ -1 +1 @@\r\n-\xe9\xff\r\n+\x00  \r\n"
    patch = Patch.of(data)
    assert patch.data == data
    assert patch.repairs == ()
    assert patch.sha256 == hashlib.sha256(data).hexdigest()

    repaired = Patch.of(data[:-1])
    assert repaired.data == data[:-1] + b"\n", "only a newline is added: the \\r before it stays"
    assert repaired.repairs == ("final_newline_added",)


@given(st.binary(max_size=200))
@example(b" \n\t ")
@example(b"\n")
def test_of_never_takes_anything_away(data: bytes) -> None:
    patch = Patch.of(data)
    assert patch.data in (data, data + b"\n")
    assert bool(patch.repairs) == (patch.data != data)
    assert not patch.data or patch.data.endswith(b"\n")
    assert Patch.of(patch) is patch
    assert len(patch) == len(patch.data)
    assert bool(patch) == patch.exists == bool(data.strip())


@given(st.binary(max_size=200))
def test_text_read_with_surrogate_escapes_gives_its_bytes_back(data: bytes) -> None:
    assert Patch.of(data.decode("utf-8", "surrogateescape")) == Patch.of(data)


def test_text_that_stands_for_no_bytes_is_refused() -> None:
    with pytest.raises(UnicodeEncodeError):
        Patch.of("lone surrogate \ud800\n")


@pytest.mark.parametrize("nothing", [None, "", b""])
def test_nothing_is_the_empty_patch(nothing: bytes | str | None) -> None:
    assert Patch.of(nothing) == EMPTY_PATCH
    assert not Patch.of(nothing).exists
    assert Patch.of(nothing).files == ()


@given(st.binary(max_size=300))
def test_json_and_pickle_round_trips_keep_every_byte(data: bytes) -> None:
    patch = Patch.of(data)
    assert Patch.model_validate_json(patch.model_dump_json()) == patch
    assert Patch.model_validate(json.loads(json.dumps(patch.model_dump(mode="json")))) == patch
    assert pickle.loads(pickle.dumps(patch)) == patch


def test_what_was_computed_does_not_change_equality() -> None:
    one, other = Patch(data=b"x\n"), Patch(data=b"x\n")
    assert one.sha256
    assert one.files == ()
    assert one == other
    assert hash(one) == hash(other)


def test_its_repr_and_text_are_for_show() -> None:
    patch = Patch.of(b"diff --git a/x b/x\nnew file mode 100644\n\xff\n")
    assert repr(patch) == f"Patch({len(patch)} bytes, 1 files, sha256={patch.sha256[:12]})"
    assert str(patch).startswith("Patch 1 file, 42 B")
    assert "\ufffd" in str(patch)
    assert patch.text.endswith("\ufffd\n")


def test_it_is_immutable_and_refuses_unknown_fields() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        EMPTY_PATCH.data = b"x"  # type: ignore[misc]
    with pytest.raises(ValidationError, match="Extra inputs"):
        Patch.model_validate({"data": b"", "encoding": "latin-1"})
    with pytest.raises(ValidationError, match="base64"):
        Patch.model_validate_json('{"data": "not base64!"}')
