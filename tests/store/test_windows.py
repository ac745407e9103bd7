"""Windows into files, plain and compressed: the same bytes and lines, whatever the size."""

from __future__ import annotations

import gzip
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from swe_sdk.errors import InputError
from swe_sdk.store import blocks, frames
from swe_sdk.store.frames import compress_file
from swe_sdk.store.windows import LONGEST_LINE_BYTES, WindowedFile
from swe_sdk.store.writer import RunWriter
from tests.shared import full_device

TEXTS = some.lists(some.sampled_from((b"\n", b"a", b"word", b"\xff\xfe", b"long" * 40, b"\n\n")), max_size=60).map(
    b"".join
)


@pytest.fixture(params=["plain", "packed"])
def stored(request, tmp_path, monkeypatch):
    """Writes bytes into a file, as they are or compressed, with blocks of a few bytes; returns it opened."""
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 64)
    monkeypatch.setattr("swe_sdk.store.windows.BLOCK_BYTES", 64)
    monkeypatch.setattr(frames, "FRAME_BYTES", 64)
    count = iter(range(10**9))

    def store(data: bytes) -> WindowedFile:
        path = tmp_path / f"f{next(count)}"
        path.write_bytes(data)
        if request.param == "packed":
            compress_file(path)
            assert not path.exists()
        return WindowedFile(path)

    return store


def lines_of(data: bytes) -> list[bytes]:
    found = data.split(b"\n")
    return found[:-1] if found[-1] == b"" else found


def test_windows_equal_slices(stored):
    @settings(max_examples=60, deadline=None)
    @given(TEXTS, some.integers(0, 300), some.integers(0, 300))
    def check(data: bytes, offset: int, length: int) -> None:
        with stored(data) as file:
            assert file.size == len(data)
            assert file.read_window(offset, length) == data[offset : offset + length]

    check()


def test_lines_equal_split(stored):
    @settings(max_examples=60, deadline=None)
    @given(TEXTS, some.integers(0, 70), some.integers(0, 70))
    def check(data: bytes, first: int, count: int) -> None:
        whole = lines_of(data)
        with stored(data) as file:
            assert [line.data for line in file.lines(first, count)] == whole[first : first + count]
            assert [line.number for line in file.lines(first, count)] == list(range(len(whole)))[first : first + count]
            assert file.line_count() == len(whole)
            assert [line.data for line in file.tail(count)] == (whole[-count:] if count else [])
            for line in file.lines(0, 200):
                assert data[line.offset :].startswith(line.data)
                assert file.line_of(line.offset) == line.number
                assert file.lines_at(line.offset + len(line.data) // 2, 1)[0].offset == line.offset

    check()


def test_find_equals_find(stored):
    @settings(max_examples=60, deadline=None)
    @given(TEXTS, some.sampled_from((b"word", b"longl", b"\n\n", b"aword", b"zz")), some.integers(0, 200))
    def check(data: bytes, needle: bytes, start: int) -> None:
        at = data.find(needle, start)
        with stored(data) as file:
            assert file.find(needle, start) == (at if at >= 0 else None)
            assert file.find(needle.upper(), start, ignore_case=True) == (at if at >= 0 else None)

    check()


def test_a_needle_across_two_looks(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"x" * ((1 << 20) - 2) + "nädel".encode() + b"y" * 100)
    with WindowedFile(path) as file:
        assert file.find("nädel") == (1 << 20) - 2


def test_long_lines_are_cut(stored):
    data = b"a\n" + b"b" * (LONGEST_LINE_BYTES * 3) + b"\nc"
    with stored(data) as file:
        a, b, c = file.lines(0, 9)
    assert (a.data, a.is_cut, c.data, c.is_cut) == (b"a", False, b"c", False)
    assert (b.data, b.is_cut, b.offset, c.offset) == (b"b" * LONGEST_LINE_BYTES, True, 2, len(data) - 1)
    assert file._file.closed


def test_a_file_that_grows_and_is_compressed_meanwhile(tmp_path):
    with RunWriter(tmp_path) as writer:
        log = writer.artifact("log", rollout_id="a.0", attempt=1)
        log.write(b"one\ntw")
        with WindowedFile(log.path) as early:
            assert [line.data for line in early.lines(0, 9)] == [b"one", b"tw"]
            log.write(b"o\n" + b"more\n" * 400_000)
            assert [line.data for line in early.lines(1, 2)] == [b"two", b"more"]
            record = log.close()
            assert early.line_count() == 400_002
            assert not log.path.exists()
            with WindowedFile(log.path) as late:
                assert (late.size, late.lines(400_001, 1)) == (record.size_bytes, early.lines(400_001, 1))
    assert (record.encoding, record.stored_bytes < record.size_bytes // 20) == ("gzip", True)


def test_zcat_reads_what_we_compress(tmp_path):
    path = tmp_path / "log"
    data = b"".join(b"%d\n" % n for n in range(300_000))
    path.write_bytes(data)
    path.chmod(0o600)
    packed = compress_file(path)
    assert gzip.decompress(packed.read_bytes()) == data
    assert packed.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("spoil", ["cut", "flip", "foreign", "header"])
def test_damaged_files_are_named(tmp_path, spoil):
    path = tmp_path / "log"
    path.write_bytes(b"some text\n" * 200_000)
    packed = compress_file(path)
    data = bytearray(packed.read_bytes())
    if spoil == "cut":
        data = data[:-5]
    elif spoil == "flip":
        data[200] ^= 0xFF
    elif spoil == "header":
        data[16] = 9
    else:
        data = bytearray(gzip.compress(b"other"))
    packed.write_bytes(data)
    with pytest.raises(InputError, match=r"damaged|not a compressed artifact"):
        with WindowedFile(path) as file:
            file.read_window(0, 100)


def test_windows_that_cannot_be(tmp_path):
    with pytest.raises(InputError, match="no artifact"):
        WindowedFile(tmp_path / "none")
    with pytest.raises(InputError, match="cannot read"):
        WindowedFile(tmp_path)
    (tmp_path / "f").write_bytes(b"x")
    with WindowedFile(tmp_path / "f") as file:
        for offset, length in ((-1, 1), (0, -1), (0, 1 << 30)):
            with pytest.raises(InputError, match="window"):
                file.read_window(offset, length)
        with pytest.raises(InputError, match="nothing to look for"):
            file.find("")


BIG = """
import resource, sys, time
from swe_sdk.store.windows import WindowedFile
base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
def timed(call):
    start = time.process_time()
    call()
    return time.process_time() - start
with WindowedFile(sys.argv[1]) as file:
    size = file.size
    looks = [timed(lambda: file.read_window(size * n // 10, 65536)) for n in range(10)]
    looks += [timed(lambda: file.lines_at(size * n // 10, 200)) for n in range(10)]
    looks += [timed(lambda: file.tail(200)), timed(lambda: file.lines(0, 200))]
    file.lines(2_000_000, 200)
    looks += [timed(lambda: file.lines(200_000 * n, 200)) for n in range(10)]
    assert file.find("no such thing in it") is None
print(size, max(looks), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base)
"""


@pytest.mark.parametrize("packed", [False, True])
def test_a_log_of_200_mb(tmp_path, packed):
    path = tmp_path / "log"
    line = b"2026-01-01 12:00:00 INFO test_%07d ... ok, and some more words to fill the line up to a hundred bytes...\n"
    with path.open("wb") as file:
        for start in range(0, 2_000_000, 50_000):
            file.write(b"".join(line % n for n in range(start, start + 50_000)))
    if packed:
        compress_file(path)
    done = subprocess.run([sys.executable, "-c", BIG, str(path)], capture_output=True, text=True, check=True)
    size, slowest, kib = done.stdout.split()
    assert int(size) > 200_000_000
    assert float(slowest) <= 0.05
    assert int(kib) < 40_000
    for left in tmp_path.iterdir():
        left.unlink()


def test_compression_makes_way_for_a_full_disk(tmp_path, monkeypatch):
    path = tmp_path / "log"
    path.write_bytes(b"x" * 3_000_000)
    real, device = Path.open, full_device()

    def full(self: Path, mode: str = "r", *rest, **more):
        return real(device, "wb", 0) if mode == "xb" else real(self, mode, *rest, **more)

    monkeypatch.setattr(Path, "open", full)
    assert compress_file(path) == path
    assert [p.name for p in tmp_path.iterdir()] == ["log"]


def test_what_unpacks_to_more_than_it_says_is_not_unpacked(tmp_path):
    """A run directory may come from elsewhere: 50 kB that would be 50 MB."""
    (tmp_path / "log").write_bytes(b"a" * 10)
    honest = frames.pack(b"a" * 10)
    bomb = bytearray(frames.pack(b"\0" * (50 << 20)))
    at = len(frames._FIXED)
    _length, _name, _part, stored, _raw, newlines = frames._EXTRA.unpack_from(bomb, at)
    frames._EXTRA.pack_into(bomb, at, 16, b"SW", 12, stored, 10, newlines)
    (tmp_path / "bomb.gz").write_bytes(honest + bomb)
    tracemalloc.start()
    try:
        with WindowedFile(tmp_path / "bomb") as file:
            assert file.read_window(0, 10) == b"a" * 10
            with pytest.raises(InputError, match="damaged"):
                file.read_window(10, 10)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
