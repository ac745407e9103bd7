from __future__ import annotations

import json

from swe_sdk.agents.opencode.config import configuration, environment


def config(**more: object) -> dict[str, object]:
    return configuration("m/1", "http://127.0.0.1:1/v1", context_tokens=1000, output_tokens=10, more=more)


def test_the_key_is_in_a_variable_and_nowhere_else() -> None:
    env = environment("/state", config(), "the-key")
    assert env.pop("SWE_SDK_MODEL_KEY") == "the-key"
    assert "the-key" not in json.dumps(env)
    assert "{env:SWE_SDK_MODEL_KEY}" in env["OPENCODE_CONFIG_CONTENT"]


def test_everything_it_writes_is_in_its_state() -> None:
    env = environment("/state", config(), "")
    assert {env[name].rpartition("/")[0] for name in env if name.startswith("XDG_")} == {"/state"}
    assert env["OPENCODE_DISABLE_PROJECT_CONFIG"] == "1", "the repository does not configure it"


def test_settings_are_laid_over_ours_key_by_key() -> None:
    laid = config(permission={"bash": "deny"}, share="manual")
    assert laid["permission"] == {
        "*": "allow",
        "webfetch": "deny",
        "websearch": "deny",
        "question": "deny",
        "bash": "deny",
    }
    assert laid["share"] == "manual"
    assert laid["model"] == "swe-sdk/m/1"
