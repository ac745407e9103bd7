from __future__ import annotations

import tomllib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from swe_sdk.agents.codex.config import configuration

VALUE = st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(codec="utf-8"))
TABLE = st.dictionaries(st.text(min_size=1, alphabet="ab .é\"'"), VALUE | st.lists(st.text('ab\\"\n')), min_size=1)


def read(**more: Any) -> dict[str, Any]:
    text = configuration("m/1", "http://127.0.0.1:1/v1", context_tokens=10, tries=3, timeout_s=1.5, more=more)
    return tomllib.loads(text)


def test_it_is_told_where_the_model_is_and_no_key() -> None:
    config = read()
    provider = config["model_providers"][config["model_provider"]]
    assert (config["model"], provider["base_url"]) == ("m/1", "http://127.0.0.1:1/v1")
    assert (provider["stream_max_retries"], provider["stream_idle_timeout_ms"]) == (2, 1500)
    assert config["shell_environment_policy"]["exclude"] == [provider["env_key"]], "its commands do not see the key"


def test_settings_are_laid_over_ours_key_by_key() -> None:
    config = read(model_providers={"swe_sdk": {"wire_api": "chat"}}, web_search="live")
    assert config["model_providers"]["swe_sdk"]["wire_api"] == "chat"
    assert config["model_providers"]["swe_sdk"]["base_url"] == "http://127.0.0.1:1/v1"
    assert config["web_search"] == "live"


@given(TABLE)
def test_whatever_is_set_is_read_back(table: dict[str, Any]) -> None:
    assert read(mine={"deep": table})["mine"]["deep"] == table
