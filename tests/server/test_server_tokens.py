"""Which headers show a server's token, and that none of them keeps it from its work."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from swe_sdk.server.wire import bearer_token, shows_token

TOKEN = SecretStr("a token-with.odd=things")


@pytest.mark.parametrize("scheme", ["Bearer ", "bearer ", "BEARER   "])
def test_headers_that_show_it(scheme: str) -> None:
    assert shows_token(f"{scheme}{TOKEN.get_secret_value()}", TOKEN)
    assert shows_token(f"{scheme}{TOKEN.get_secret_value()}  ", TOKEN), "blanks around a header's value mean nothing"


@given(st.text(st.characters(max_codepoint=255)) | st.sampled_from(["Basic a", "Bearer", "Bearer ", "Bearerx a", ""]))
def test_headers_that_show_something_else(header: str) -> None:
    assert not shows_token(header, TOKEN)
    assert not shows_token(f"Bearer {header}", TOKEN)
    assert not shows_token(None, TOKEN)


def test_the_longest_header_is_read_in_no_time() -> None:
    """Anybody may send one, and all others wait meanwhile."""
    began = time.process_time()
    assert bearer_token("Bearer a" + " " * 60_000 + "b").endswith(" b")
    assert time.process_time() - began < 0.5
