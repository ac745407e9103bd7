"""Output: bounded, exact, and there while the program runs."""

from __future__ import annotations

import anyio

from swe_sdk.model.exec_result import ExecResult
from swe_sdk.sandbox.contract import Stream
from swe_sdk.testing.check import check
from swe_sdk.testing.expect import require, require_equal, require_ok
from swe_sdk.testing.lab import Lab
from swe_sdk.testing.this_machine import MemoryPeak

HANDSHAKE = "touch /tmp/started; while [ ! -e /tmp/go ]; do sleep 0.02; done"
"""Says that it runs, and waits to be let go on."""


def flood(total: int, *, to: str = "") -> str:
    """A shell line that prints ``total`` bytes: HEAD, a lot of x, TAIL."""
    return f"{{ printf HEAD; head -c {total - 8} /dev/zero | tr '\\0' x; printf TAIL; }} {to}"


@check()
async def a_flood_is_cut_in_the_middle(lab: Lab) -> None:
    """Of 100 MB the head and the tail are kept, half of ``output_bytes`` each; what is dropped is counted exactly."""
    box, total = await lab.box(), lab.settings.flood_bytes
    for to in ("", ">&2"):
        result = await lab.ok(box, flood(total, to=to), output_bytes=1 << 16)
        kept = result.stderr_bytes if to else result.stdout_bytes
        dropped = result.stderr_dropped_bytes if to else result.stdout_dropped_bytes
        _require_cut(kept, dropped, total, 1 << 16)


@check()
async def a_flood_does_not_fill_memory(lab: Lab) -> None:
    """This process does not hold what a program prints: many sandboxes share it."""
    box, total = await lab.box(), lab.settings.flood_bytes
    await lab.ok(box, "true")
    peak = MemoryPeak()
    await lab.ok(box, flood(total), output_bytes=1 << 16)
    require(
        peak.growth_bytes() < total // 2, f"memory grew by {peak.growth_bytes()} bytes over {total} bytes of output"
    )


@check()
async def the_limit_is_exact(lab: Lab) -> None:
    """Output of exactly the limit is whole; one byte more drops one byte; a limit of 0 keeps nothing and counts all."""
    box = await lab.box()
    for printed, limit, kept, dropped in (
        ("0123456789", 10, b"0123456789", 0),
        ("0123456789A", 10, b"012346789A", 1),
        ("0123456789", 0, b"", 10),
    ):
        result = await lab.ok(box, ["printf", printed], output_bytes=limit)
        what = f"kept and dropped of {len(printed)} bytes under a limit of {limit}"
        require_equal((result.stdout_bytes, result.stdout_dropped_bytes), (kept, dropped), what)


@check()
async def both_streams_may_flood_at_once(lab: Lab) -> None:
    """Neither stream is read to its end before the other: a program that fills both pipes must not deadlock."""
    size = 4_000_000
    script = f"head -c {size} /dev/zero >&2 & head -c {size} /dev/zero; wait; head -c {size} /dev/zero >&2"
    result = await lab.ok(await lab.box(), script, output_bytes=1000)
    counts = (
        len(result.stdout_bytes) + result.stdout_dropped_bytes,
        len(result.stderr_bytes) + result.stderr_dropped_bytes,
    )
    require_equal(counts, (size, 2 * size), "bytes of the two streams")


@check()
async def binary_output_is_intact(lab: Lab) -> None:
    """Output is bytes: NUL, CRLF, invalid UTF-8 and a missing last newline come back as they were."""
    box = await lab.box()
    data = bytes(range(256)) * 2 + b"\r\n\x80 end"
    await box.write("/tmp/data", data)
    result = await lab.ok(box, "cat /tmp/data; cat /tmp/data >&2")
    require_equal(result.stdout_bytes, data, "standard output")
    require_equal(result.stderr_bytes, data, "standard error")


@check()
async def newlines_at_the_end_are_kept(lab: Lab) -> None:
    """Nothing is stripped and nothing is added: a patch without its last newline does not apply."""
    box = await lab.box()
    for text in ("", "\n", "x", "x\n\n\n", "  x  "):
        require_equal((await lab.ok(box, ["printf", "%s", text])).stdout_bytes, text.encode(), "standard output")


@check()
async def pieces_make_up_the_output(lab: Lab) -> None:
    """``on_output`` is given all bytes of each stream, in order, and nothing after ``exec`` has returned."""
    pieces: dict[Stream, bytes] = {"stdout": b"", "stderr": b""}

    def keep(stream: Stream, data: bytes) -> None:
        pieces[stream] += data

    script = "i=0; while [ $i -lt 300 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done; head -c 200000 /dev/zero"
    result = await lab.ok(await lab.box(), script, on_output=keep)
    require_equal(pieces["stdout"], result.stdout_bytes, "the pieces of standard output")
    require_equal(pieces["stderr"], result.stderr_bytes, "the pieces of standard error")


@check()
async def pieces_are_not_cut(lab: Lab) -> None:
    """What the result drops, ``on_output`` has still seen: it is how a whole log is kept."""
    seen: dict[Stream, int] = {"stdout": 0, "stderr": 0}

    def count(stream: Stream, data: bytes) -> None:
        seen[stream] += len(data)

    total = 5_000_000
    result = await lab.ok(await lab.box(), flood(total), output_bytes=1000, on_output=count)
    require_equal(seen["stdout"], total, "bytes given to on_output")
    require_equal(len(result.stdout_bytes) + result.stdout_dropped_bytes, total, "bytes kept and dropped")


@check()
async def merged_pieces_are_standard_output(lab: Lab) -> None:
    """With ``merge_stderr`` every piece belongs to standard output."""
    seen: list[tuple[Stream, bytes]] = []
    command = "echo out; echo err >&2"
    await lab.ok(
        await lab.box(), command, merge_stderr=True, on_output=lambda stream, data: seen.append((stream, data))
    )
    require_equal({stream for stream, _ in seen}, {"stdout"}, "streams of the pieces")
    require_equal(b"".join(data for _, data in seen), b"out\nerr\n", "the pieces")


@check(needs=("streaming",))
async def output_arrives_while_the_program_runs(lab: Lab) -> None:
    """A person watches a test run live, and an agent's idle time is judged by it.

    The program prints, and then waits for an answer to what it printed.
    """
    box, arrived = await lab.box(), anyio.Event()
    script = f"printf hello; {HANDSHAKE}; echo bye"
    async with lab.running(box, script, on_output=lambda *_: arrived.set()) as pending:
        with lab.promptly("nothing arrived while the program was running"):
            await arrived.wait()
        await box.write("/tmp/go", b"")
    require_equal(require_ok(pending.need()).stdout, "hellobye\n", "standard output")


@check()
async def output_of_a_killed_command_is_kept(lab: Lab) -> None:
    """What was printed before a timeout is evidence."""
    result: ExecResult = await lab.run(await lab.box(), "echo before; echo trouble >&2; sleep 60", timeout_s=1.0)
    require_equal((result.stdout, result.stderr), ("before\n", "trouble\n"), "the two streams")


def _require_cut(kept: bytes, dropped: int, total: int, limit: int) -> None:
    require_equal(len(kept) + dropped, total, "bytes kept and dropped")
    require(limit // 2 <= len(kept) <= limit, f"{len(kept)} bytes were kept under a limit of {limit}")
    require(kept.startswith(b"HEADxx"), f"the head is missing: {kept[:20]!r}")
    require(kept.endswith(b"xxTAIL"), f"the tail is missing: {kept[-20:]!r}")
