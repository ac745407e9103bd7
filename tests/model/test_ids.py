"""Names that are safe in paths, and keys that depend on content alone."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from swe_sdk.model.ids import content_key, new_id, safe_name

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=4), children, max_size=4),
    max_leaves=8,
)
TEXT = st.text(st.characters(), max_size=120)


def backwards(value: Any) -> Any:
    """The same data, every object's fields in the opposite order."""
    if isinstance(value, dict):
        return {name: backwards(value[name]) for name in reversed(value)}
    return [backwards(item) for item in value] if isinstance(value, list) else value


@given(JSON)
def test_a_key_does_not_depend_on_the_order_of_fields(value: Any) -> None:
    assert content_key(value) == content_key(backwards(value))
    assert re.fullmatch(r"[0-9a-f]{64}", content_key(value))


@given(JSON, JSON)
@example(["a", "b"], ["b", "a"])
@example({"a": None}, {})
@example(1, "1")
@example([1, 2], [12])
@example("", None)
@example({"a": {"b": 1}}, {"a": {}, "b": 1})
def test_different_data_has_different_keys(one: Any, other: Any) -> None:
    same_type_and_value = one == other and repr(one) == repr(other)
    if backwards(one) != backwards(other):
        assert content_key(one) != content_key(other)
    elif same_type_and_value:
        assert content_key(one) == content_key(other)


def test_keys_are_stable_from_one_version_to_the_next() -> None:
    """They name environments and outcomes on disk: sha256 of JSON with sorted names and no spaces, in UTF-8."""
    expected = hashlib.sha256('{"a":null,"b":[1,"é"]}'.encode()).hexdigest()
    assert content_key({"b": [1, "é"], "a": None}) == expected


def test_undecodable_text_has_a_key() -> None:
    assert content_key(["\udcff"]) != content_key(["\udcfe"])


@given(TEXT)
@example("..")
@example(".")
@example("")
@example("a/b")
@example("a" * 101)
@example("\udcff")
@example(".hidden")
def test_a_safe_name_is_one_path_component(name: str) -> None:
    safe = safe_name(name)
    assert re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]*", safe), "no separator, no dot in front"
    assert len(safe) <= 100
    assert safe_name(safe) == safe


@given(st.lists(TEXT, unique=True, max_size=30))
@example(["a/b", "a_b", "a:b", "a b", "a//b"])
@example(["", "_", ".", "..", "__", " "])
@example(["x" * 101, "x" * 102, "x" * 100])
def test_different_names_stay_different(names: list[str]) -> None:
    assert len({safe_name(name) for name in names}) == len(names)


@pytest.mark.parametrize("name", ["django__django-11001", "mini__calc-1", "a.b-c_d", "x" * 100])
def test_ordinary_names_are_kept(name: str) -> None:
    assert safe_name(name) == name


def test_new_ids_differ() -> None:
    ids = {new_id("box") for _ in range(2000)}
    assert len(ids) == 2000
    assert all(re.fullmatch(r"box-[0-9a-f]{12}", each) for each in ids)
