"""Which patch is found in what a model said."""

from __future__ import annotations

import base64
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swe_sdk.errors import InputError
from swe_sdk.server.models import ModelResponse
from swe_sdk.server.patches import find_patch, first_block

DIFF = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"


def said(*texts: str, **fields: Any) -> ModelResponse:
    content = [{"type": "output_text", "text": text} for text in texts]
    return ModelResponse(output=[{"type": "message", "role": "assistant", "content": content}], **fields)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"```diff\n{DIFF}```", DIFF),
        (f"Look:\n\n```patch\n{DIFF}```\n\nThat is all.", DIFF),
        (f"```Diff title=x\n{DIFF}````\n", DIFF),
        (f"~~~ diff\n{DIFF}~~~", DIFF),
        (f"```diff\r\n{DIFF}```\r\n", DIFF),
        ("```diff\n```", ""),
        (f"```python\nprint()\n```\n```diff\n{DIFF}```", DIFF),
        (f"```diff\n{DIFF}```\n```diff\nsecond\n```", DIFF),
        ("1. this:\n   ```diff\n   -a\n   +b\n    c\n   ```", "-a\n+b\n c\n"),
        ("```diff\n-x\n ```\n+y\n```", "-x\n ```\n+y\n"),
        (f"```\n{DIFF}```", None),
        (f"```\n```diff\n{DIFF}```", None),
        (f"````markdown\n```diff\n{DIFF}```\n````", None),
        (f"```diff\n{DIFF}", None),
        (f"```python\nprint()\n\n```diff\n{DIFF}", None),
        (f"```diffs\n{DIFF}```", None),
        (f"``diff\n{DIFF}``", None),
        (f"    ```diff\n{DIFF}    ```", None),
        (f"here is ```diff\n{DIFF}```", None),
        (DIFF, None),
        ("", None),
    ],
)
def test_blocks(text: str, expected: str | None) -> None:
    assert first_block(text) == expected


def test_a_bare_fence_is_no_patch() -> None:
    found = find_patch(said(f"```\n{DIFF}```"))
    assert (found.patch.exists, found.source) == (False, "none")


def test_the_metadata_comes_first() -> None:
    found = find_patch(said(f"```diff\n{DIFF}```", metadata={"model_patch": "other\n"}))
    assert (found.patch.data, found.source) == (b"other\n", "metadata")


def test_an_empty_text_in_the_metadata_is_an_empty_patch() -> None:
    found = find_patch(said(f"```diff\n{DIFF}```", metadata={"model_patch": ""}))
    assert (found.patch.exists, found.source) == (False, "metadata")


def test_null_in_the_metadata_is_no_patch() -> None:
    assert find_patch(said(f"```diff\n{DIFF}```", metadata={"model_patch": None})).source == "fence"


def test_bytes_come_through_as_they_are() -> None:
    data = bytes(range(256)) + b"\n"
    found = find_patch(said(metadata={"model_patch_base64": base64.b64encode(data).decode()}))
    assert found.patch.data == data


@pytest.mark.parametrize(
    "metadata",
    [
        {"model_patch": 7},
        {"model_patch": ["x"]},
        {"model_patch_base64": "no base64"},
        {"model_patch_base64": 7},
        {"model_patch": "x", "model_patch_base64": "eA=="},
        {"model_patch": "\ud800"},
    ],
)
def test_what_is_no_patch_is_said(metadata: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="model_patch"):
        find_patch(ModelResponse(metadata=metadata))


def test_only_what_the_model_itself_wrote_is_read() -> None:
    text = f"```diff\n{DIFF}```"
    output = [
        {"type": "function_call_output", "output": text},
        {"type": "reasoning", "content": [{"type": "reasoning_text", "text": text}], "summary": []},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]},
        {"type": "message", "role": "user", "content": text},
        {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": text}]},
        7,
        None,
        {"type": "message", "content": 7},
    ]
    assert find_patch(ModelResponse(output=output)).source == "none"
    assert find_patch(ModelResponse(output=[*output, {"role": "assistant", "content": text}])).source == "fence"


lines = st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]))


@given(st.lists(lines.filter(lambda line: not line.startswith("```"))), st.text())
def test_any_content_comes_back(content: list[str], before: str) -> None:
    """Whatever text is in a block, up to a line that begins as its fence does."""
    block = "".join(f"{line}\n" for line in content)
    assert first_block(f"```diff\n{block}```\nafter\n") == block
    fences = ("`", "~")
    if not any(mark in before for mark in fences):
        assert first_block(f"{before}\n```diff\n{block}```") == block


@given(st.lists(st.sampled_from(["```", "````", "```diff", "~~~", " ```", "-a", "", "\r"])).map("\n".join))
def test_no_text_is_too_odd(text: str) -> None:
    block = first_block(text)
    assert block is None or block in text.replace(" ```", "```") or block == "" or "\n" in block


def test_a_long_text_takes_no_longer_than_its_length() -> None:
    started = time.monotonic()
    for line in ("```a\n", "````\n", "```diff\n"):
        first_block(line * 200_000)
    for part in ("a", " ", "~"):
        assert first_block(f"```{part * 200_000}`") is None
        assert first_block(f"~~~{part * 200_000}`") is None
    assert time.monotonic() - started < 5
