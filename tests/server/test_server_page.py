"""The page about the server says what is so."""

from __future__ import annotations

import json
import re

from swe_sdk.cli import _parser
from swe_sdk.server.models import Verdict, VerifyRequest, VerifyResponse
from swe_sdk.server.problems import CODES
from swe_sdk.server.settings import ServerSettings
from tests.test_docs import blocks, codes, tables

PAGE = "docs/server.md"


def test_the_example_is_a_request_and_its_answer() -> None:
    request, answer = map(json.loads, blocks(PAGE, "json"))
    VerifyRequest.model_validate(request)
    VerifyResponse.model_validate(answer)
    assert answer.keys() == Verdict.model_fields.keys() | {"response", "responses_create_params"}


def test_every_field_of_an_answer_is_explained() -> None:
    explained = {name for table in tables(PAGE) for row in table for name in codes(row[0])}
    assert Verdict.model_fields.keys() - {"instance_id"} <= explained


def test_the_codes_are_those_of_the_server() -> None:
    rows = [row for table in tables(PAGE) for row in table if len(row) == 3]
    assert {codes(code)[0]: (int(status), meaning) for code, status, meaning in rows} == dict(CODES)


def test_the_settings_are_those_of_the_server() -> None:
    options = {option for action in _serve_actions() for option in action.option_strings}
    rows = {codes(row[0])[0]: row for table in tables(PAGE) for row in table if len(row) == 4}
    assert list(rows) == list(ServerSettings.model_fields)
    for name, (_setting, option, default, _meaning) in rows.items():
        if name != "workers":
            assert str(ServerSettings.model_fields[name].default) == codes(default)[0], name
        assert not option or codes(option)[0] in options


def test_what_the_command_says_of_defaults_is_so() -> None:
    """Options whose default is the setting's own, and stands in their help."""
    names = {"queue": "queue", "body_mib": "body_mib", "longest_timeout": "longest_tests_timeout_s"}
    names |= {"request_timeout": "request_timeout_s", "drain": "drain_s", "control": "control"}
    for action in _serve_actions():
        if action.dest in names:
            told = re.search(r"default: (\w+)", action.help or "")
            assert told is not None
            assert told[1] == f"{ServerSettings.model_fields[names[action.dest]].default}".removesuffix(".0")


def _serve_actions():
    (commands,) = (action for action in _parser()._actions if action.dest == "command")
    return commands.choices["serve"]._actions
