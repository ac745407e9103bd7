"""What a command prints, all of it, in a file of its sandbox."""

from __future__ import annotations

import hashlib

import pytest

from swe_sdk.aio import Sandbox
from swe_sdk.sandbox.contract import Stream
from swe_sdk.sandbox.providers.local.provider import LocalProvider

pytestmark = pytest.mark.anyio


async def test_the_file_holds_what_the_result_dropped(local_provider: LocalProvider) -> None:
    async with Sandbox(provider=local_provider) as box:
        seen = hashlib.sha256()

        def take(_stream: Stream, data: bytes) -> None:
            seen.update(data)

        result = await box.exec("seq 1 500000", output_bytes=1000, output_file="/tmp/out.txt", on_output=take)
        assert result.ok
        assert result.truncated
        assert len(result.stdout_bytes) == 1000
        assert result.output_file == "/tmp/out.txt"
        whole = await box.read_bytes("/tmp/out.txt")
        assert whole == b"".join(b"%d\n" % number for number in range(1, 500001))
        assert hashlib.sha256(whole).digest() == seen.digest()
        assert (await box.exec("tail -n1 /tmp/out.txt")).stdout == "500000\n"


async def test_both_streams_are_in_it_in_their_order(local_provider: LocalProvider) -> None:
    async with Sandbox(provider=local_provider) as box:
        script = "echo out; sleep 0.1; echo err >&2; sleep 0.1; printf '\\377'"
        result = await box.exec(script, output_file="logs/run 1.txt")
        assert result.output_file == "logs/run 1.txt"
        assert await box.read_bytes("logs/run 1.txt") == b"out\nerr\n\xff"


async def test_a_command_that_is_killed_leaves_its_output_too(local_provider: LocalProvider) -> None:
    async with Sandbox(provider=local_provider) as box:
        result = await box.exec("echo began; sleep 60", timeout_s=0.3, output_file="/tmp/out")
        assert result.status == "timeout"
        assert await box.read_bytes(str(result.output_file)) == b"began\n"


async def test_a_file_that_cannot_be_written_is_not_named(local_provider: LocalProvider) -> None:
    async with Sandbox(provider=local_provider) as box:
        result = await box.exec("echo kept", output_file="/proc/1/out")
        assert (result.stdout, result.output_file) == ("kept\n", None)
        result = await box.exec("echo kept", output_file="/tmp")
        assert (result.stdout, result.output_file) == ("kept\n", None)


async def test_without_a_path_there_is_no_file(local_provider: LocalProvider) -> None:
    async with Sandbox(provider=local_provider) as box:
        assert (await box.exec("echo hello")).output_file is None
        assert (await box.exec("ls -A /tmp")).stdout == ""
