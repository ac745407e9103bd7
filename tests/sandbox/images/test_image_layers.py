"""One layer, unpacked: what an archive may say, and what it may not do."""

from __future__ import annotations

import gzip
import os
import shutil
import stat
import tarfile
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from swe_sdk.errors import CreateFailed
from swe_sdk.sandbox.providers.local.layers import UPPER
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from swe_sdk.sandbox.providers.local.workshops import workshop
from swe_sdk.sandbox.providers.local.zygote import UnpackLimits
from tests.sandbox.images.oci import digest_of, entry, hard_link, layer, link, zstd
from tests.shared import need_program

pytestmark = pytest.mark.anyio
OPAQUE = "user.overlay.opaque"


@asynccontextmanager
async def unpacked(
    provider: LocalProvider,
    data: bytes,
    *,
    packed: bytes | None = None,
    limit_bytes: int = 1 << 26,
    entries: int = 10_000,
) -> AsyncIterator[Path]:
    """The directory into which an archive was unpacked."""
    limits = UnpackLimits(digest_of(data), limit_bytes, entries)
    async with workshop(provider) as path:
        with tempfile.TemporaryFile() as blob:
            blob.write(data if packed is None else packed)
            blob.seek(0)
            await provider.zygote.unpack(blob.fileno(), path / UPPER, limits, provider.identity.id_map)
        yield path / UPPER


def is_whiteout(path: Path) -> bool:
    info = path.lstat()
    return stat.S_ISCHR(info.st_mode) and info.st_rdev == 0


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


async def test_every_kind_of_entry(provider: LocalProvider) -> None:
    data = layer(
        entry("./", mode=0o755),
        entry("d/", mode=0o1777, mtime=1),
        entry("d/setuid", b"x" * 100_000, mode=0o4755),
        entry("d/precise", b"", mtime=1_500_000_000.123456789, pax_headers={"mtime": "1500000000.123456789"}),
        entry("d/old", b"", pax_headers={"mtime": "-1.5"}),
        entry("closed/", mode=0o000),
        entry("closed/within", b"in", mode=0o000),
        link("d/link", "../no/where"),
        hard_link("d/same", "d/setuid"),
        hard_link("d/same-link", "d/link"),
        entry("pipe", kind=tarfile.FIFOTYPE, mode=0o620),
        entry("disk", kind=tarfile.BLKTYPE, devmajor=8, devminor=0),
        entry("mem", kind=tarfile.CHRTYPE, devmajor=1, devminor=1),
        entry("null", kind=tarfile.CHRTYPE, devmajor=0, devminor=0),
        entry("with/parents/that/are/not/named", b"deep"),
        entry("big", os.urandom(3_000_000), uid=12345, gid=54321),
    )
    async with unpacked(provider, data) as root:
        assert sorted(os.listdir(root)) == ["big", "closed", "d", "pipe", "with"]
        agent = os.geteuid() if provider.identity.agent is None else provider.identity.agent
        assert {path.lstat().st_uid for path in root.rglob("*")} == {agent}
        assert (mode_of(root / "d"), mode_of(root / "d/setuid"), mode_of(root / "closed")) == (0o1777, 0o4755, 0)
        assert (root / "d").stat().st_mtime == 1
        assert (root / "d/precise").stat().st_mtime_ns == 1_500_000_000_123_456_789
        assert (root / "d/old").stat().st_mtime_ns == -1_500_000_000
        assert (root / "d/link").readlink() == Path("../no/where")
        assert (root / "d/same").samefile(root / "d/setuid")
        assert (root / "d/same-link").lstat().st_ino == (root / "d/link").lstat().st_ino
        assert stat.S_ISFIFO((root / "pipe").lstat().st_mode)
        assert mode_of(root / "pipe") == 0o620
        assert mode_of(root / "with") == 0o755
        assert (root / "with/parents/that/are/not/named").read_bytes() == b"deep"
        assert (root / "big").stat().st_size == 3_000_000
        (root / "closed").chmod(0o700)
        assert (root / "closed/within").stat().st_size == 2


async def test_whiteouts_hide_what_lies_below_and_never_what_comes_with_them(provider: LocalProvider) -> None:
    data = layer(
        entry("d/"),
        entry("d/.wh.gone", b""),
        entry("d/kept", b"1"),
        entry("opaque/"),
        entry("opaque/.wh..wh..opq", b""),
        entry("opaque/new", b"new"),
        entry("opaque/sub/"),
        entry("opaque/sub/.wh.needless", b""),
        entry(".wh.first", b""),
        entry("first/", mode=0o700),
        entry("first/within", b""),
        entry("last/"),
        entry("last/within", b""),
        entry(".wh.last", b""),
        entry("file", b"file"),
        entry(".wh.file", b""),
        entry(".wh.implied", b""),
        entry("implied/within", b""),
        entry("nowhere/.wh.named", b""),
        entry(".wh..wh.plnk", b""),
    )
    async with unpacked(provider, data) as root:
        names = {str(path.relative_to(root)) for path in root.rglob("*")}
        assert names == {
            "d", "d/gone", "d/kept", "opaque", "opaque/new", "opaque/sub", "first", "first/within", "last",
            "last/within", "file", "implied", "implied/within", "nowhere", "nowhere/named",
        }  # fmt: skip
        assert {name for name in names if is_whiteout(root / name)} == {"d/gone", "nowhere/named"}
        opaque = {name for name in names if OPAQUE in os.listxattr(root / name, follow_symlinks=False)}
        assert opaque == {"opaque", "first", "last", "implied"}
        assert mode_of(root / "first") == 0o700
        assert mode_of(root / "implied") == 0o755


@pytest.mark.parametrize("name", ["", "/.", "/.."])
async def test_a_whiteout_of_nothing_is_refused(provider: LocalProvider, name: str) -> None:
    data = layer(entry("d/"), entry(f"d/.wh.{name.removeprefix('/')}", b""))
    with pytest.raises(CreateFailed, match="hides nothing"):
        async with unpacked(provider, data):
            pass


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
async def test_any_name(provider: LocalProvider, form: int) -> None:
    raw = [b"\xff\xfe", b"new\nline", "\u00e9".encode(), b" ", b"-rf", b"*", b"x" * 255, b"/".join([b"y" * 200] * 9)]
    names = [os.fsdecode(name) for name in raw]
    entries = [entry(name, name.encode("utf-8", "surrogateescape")) for name in names]
    async with unpacked(provider, layer(*entries, link("l", names[0]), hard_link("h", names[0]), form=form)) as root:
        for name in raw:
            assert (root / os.fsdecode(name)).read_bytes() == name
        assert os.readlink(os.fsencode(root / "l")) == b"\xff\xfe"
        assert (root / "h").samefile(root / names[0])


async def test_later_entries_replace_earlier_ones(provider: LocalProvider) -> None:
    data = layer(
        entry("file-dir", b"f"), entry("file-dir/"), entry("file-dir/x", b""),
        entry("dir-file/"), entry("dir-file/x", b""), entry("dir-file", b"now a file"),
        link("link-dir", "file-dir"), entry("link-dir/"), entry("link-dir/y", b""),
        link("link-file", "dir-file"), entry("link-file", b"its own"),
        entry("file-link", b"f"), link("file-link", "dir-file"),
        entry("twice", b"1", mode=0o600), entry("twice", b"2", mode=0o644),
        entry("dir-dir/", mode=0o700), entry("dir-dir/kept", b""), entry("dir-dir/", mode=0o711),
        entry("hard", b"h"), hard_link("twice", "hard"), hard_link("hard", "hard"),
    )  # fmt: skip
    async with unpacked(provider, data) as root:
        assert (root / "file-dir/x").exists()
        assert (root / "dir-file").read_bytes() == b"now a file"
        assert not (root / "link-dir").is_symlink()
        assert os.listdir(root / "link-dir") == ["y"]
        assert os.listdir(root / "file-dir") == ["x"]
        assert (root / "link-file").read_bytes() == b"its own"
        assert (root / "file-link").readlink() == Path("dir-file")
        assert (root / "twice").samefile(root / "hard")
        assert (mode_of(root / "dir-dir"), os.listdir(root / "dir-dir")) == (0o711, ["kept"])


ESCAPES = {
    "a name that goes up": [entry("../victim/file", b"evil")],
    "a name that goes up later": [entry("d/"), entry("d/../../victim/file", b"evil")],
    "a hard link that goes up": [hard_link("mine", "../../victim/file"), entry("mine", b"evil")],
    "a link up": [link("up", "../../victim"), entry("up/file", b"evil")],
    "a link to the root": [link("up", "/"), entry("up/VICTIM/file", b"evil")],
    "a link to the place": [link("up", "VICTIM"), entry("up/file", b"evil")],
    "a link in a link": [link("a", "."), link("a/b", ".."), link("c", "a/b/../../victim"), entry("c/file", b"evil")],
    "a hard link through a link": [link("up", "VICTIM"), hard_link("mine", "up/file"), entry("mine", b"evil")],
    "a link in place of the file": [link("file", "VICTIM/file"), entry("file", b"evil")],
    "a whiteout through a link": [link("up", "VICTIM"), entry("up/.wh.file", b"")],
    "an opaque mark through a link": [link("up", "VICTIM"), entry("up/.wh..wh..opq", b"")],
    "a directory through a link": [link("up", "VICTIM"), entry("up/", mode=0o777)],
    "a removal through a link": [link("up", "../../"), entry("up/victim", b"evil")],
    "a link over the root": [link(".", "VICTIM"), entry("file", b"evil")],
    "a file over the root": [entry("./", b"evil"), entry("x", b"")],
    "an absolute name": [entry("VICTIM/file", b"evil")],
}


@pytest.mark.parametrize("name", ESCAPES)
async def test_nothing_in_an_archive_leads_out_of_its_layer(provider: LocalProvider, name: str) -> None:
    """The victim belongs to the boxes' own user, as another layer would, and the way there is open."""
    limits_bytes = 1 << 20
    closed = mode_of(provider.state)
    provider.state.chmod(0o711)
    try:
        await _try_to_escape(provider, name, limits_bytes)
    finally:
        provider.state.chmod(closed)


async def _try_to_escape(provider: LocalProvider, name: str, limits_bytes: int) -> None:
    async with workshop(provider) as path:
        victim = path / "victim"
        victim.mkdir()
        (victim / "file").write_bytes(b"precious")
        for owned in (path, path / "top", victim, victim / "file"):
            provider.identity.own(owned)
        before = _state_of(path)
        entries = []
        for info, content in ESCAPES[name]:
            info.name = info.name.replace("VICTIM", str(victim))
            info.linkname = info.linkname.replace("VICTIM", str(victim))
            entries.append((info, content))
        data = layer(*entries)
        with tempfile.TemporaryFile() as blob:
            blob.write(data)
            blob.seek(0)
            try:
                limits = UnpackLimits(digest_of(data), limits_bytes, 100)
                await provider.zygote.unpack(blob.fileno(), path / UPPER, limits, provider.identity.id_map)
            except CreateFailed:
                pass  # refused, or nowhere within the layer
        assert _state_of(path) == before


def _state_of(workshop: Path) -> dict[str, tuple[object, ...]]:
    """What lies in a workshop outside of the layer."""
    found = {}
    for path in (workshop, *workshop.rglob("*")):
        if not path.is_relative_to(workshop / UPPER):
            info = path.lstat()
            content = path.read_bytes() if path.is_file() else b""
            found[str(path)] = (info.st_mode, info.st_uid, info.st_nlink, content, tuple(os.listxattr(path)))
    return found


async def test_an_absolute_name_starts_at_the_root_of_the_image(provider: LocalProvider) -> None:
    async with unpacked(
        provider, layer(entry("/"), entry("/etc/"), entry("/etc/x", b"x"), link("abs", "/etc"))
    ) as root:
        assert (root / "etc/x").read_bytes() == b"x"
        assert (root / "abs").readlink() == Path("/etc")


async def test_links_within_the_layer_are_followed(provider: LocalProvider) -> None:
    """As on a system whose /lib is a link to /usr/lib: an archive may write through either."""
    data = layer(
        entry("usr/lib/"), link("lib", "usr/lib"), link("abs", "/usr"), entry("lib/a", b"a"), entry("abs/b", b"b")
    )
    async with unpacked(provider, data) as root:
        assert (root / "usr/lib/a").read_bytes() == b"a"
        assert (root / "usr/b").read_bytes() == b"b"


async def test_marks_of_overlayfs_cannot_be_forged(provider: LocalProvider) -> None:
    def forged(name: str, content: bytes | None) -> tuple[tarfile.TarInfo, bytes]:
        headers = {f"SCHILY.xattr.{key}": value for key, value in {
            "user.overlay.opaque": "y", "user.overlay.redirect": "/etc", "user.overlay.metacopy": "",
            "trusted.overlay.opaque": "y", "security.capability": "x", "user.note": "kept\u00e9",
        }.items()}  # fmt: skip
        return entry(name, content, pax_headers=headers)

    async with unpacked(provider, layer(forged("d/", None), forged("f", b""))) as root:
        for name in ("d", "f"):
            assert [key for key in os.listxattr(root / name) if key.startswith(("user.", "trusted."))] == ["user.note"]
            assert os.getxattr(root / name, "user.note") == "kept\u00e9".encode()


@pytest.mark.parametrize("packing", ["plain", "gzip", "gzip members", "gzip with padding", "zstd"])
async def test_packings(provider: LocalProvider, packing: str) -> None:
    data = layer(entry("d/"), *(entry(f"d/{number}", os.urandom(20_000)) for number in range(50)))
    half = len(data) // 2
    if packing == "zstd":
        need_program("zstd")
    packed = {
        "plain": lambda: data,
        "gzip": lambda: gzip.compress(data),
        "gzip members": lambda: gzip.compress(data[:half]) + gzip.compress(data[half:]),
        "gzip with padding": lambda: gzip.compress(data + bytes(100_000)),
        "zstd": lambda: zstd(data),
    }[packing]()
    data += bytes(100_000) if packing == "gzip with padding" else b""
    async with unpacked(provider, data, packed=packed) as root:
        assert len(os.listdir(root / "d")) == 50


def _broken_header() -> bytes:
    good = layer(entry("a", b"1"), entry("b", b"2"))
    return good[:1024] + b"\1" * 512 + good[1536:]


def _sparse() -> bytes:
    headers = {"GNU.sparse.size": str(1 << 50), "GNU.sparse.numblocks": "1", "GNU.sparse.map": "0,1"}
    return layer(entry("huge", b"1", pax_headers=headers))


def _long_header() -> bytes:
    data = bytearray(
        layer(
            entry(
                "x" * 300,
                b"",
            ),
            form=tarfile.GNU_FORMAT,
        )
    )
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 1 << 33
    return info.tobuf(tarfile.GNU_FORMAT) + bytes(data[512:])


BROKEN = {
    "no archive at all": (b"hello" * 1000, None, "no sound tar archive"),
    "empty": (b"", None, "no sound tar archive"),
    "a broken header in the middle": (_broken_header(), None, "an entry is broken"),
    "cut in a file": (layer(entry("a", b"x" * 5000))[:2000], None, "ends in the middle"),
    "cut in its packing": (layer(entry("a", b"x")), gzip.compress(layer(entry("a", b"x")))[:-20], "too early"),
    "packed wrongly": (b"", b"\x1f\x8b" + b"\0" * 100, "not packed as it says"),
    "zstd packed wrongly": (b"", b"\x28\xb5\x2f\xfd" + b"\xff" * 100, "not packed as it says"),
    "another content": (layer(entry("a", b"x")), layer(entry("a", b"y")), "not what the image's config names"),
    "too large": (layer(entry("a", bytes(3 << 20))), None, "larger than"),
    "packed very well": (layer(entry("a", bytes(1 << 26))), gzip.compress(layer(entry("a", bytes(1 << 26)))), "larger"),
    "a hole without an end": (_sparse(), None, "larger than"),
    "a header without an end": (_long_header(), None, "absurd size"),
    "too many entries": (layer(*(entry(f"{number}", b"") for number in range(101))), None, "more than 100 entries"),
    "a link to nothing": (layer(hard_link("a", "missing")), None, "No such file"),
    "a file below a file": (layer(entry("a", b""), entry("a/b", b"")), None, "Not a directory"),
    "a NUL in a name": (layer(entry("a", b"", pax_headers={"path": "a\0b"})), None, "null byte"),
    "an unknown kind": (layer(entry("a", kind=b"Z")), None, "unknown kind"),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_what_is_wrong_is_said(provider: LocalProvider, name: str) -> None:
    data, packed, said = BROKEN[name]
    if name.startswith("zstd"):
        need_program("zstd")
    with pytest.raises(CreateFailed, match=said):
        async with unpacked(provider, data, packed=packed, limit_bytes=2 << 20, entries=100):
            pass
    assert not provider.boxes


async def test_a_layer_that_nobody_may_enter_can_be_deleted(provider: LocalProvider) -> None:
    data = layer(
        *(entry("/".join(["d"] * depth) + "/", mode=0) for depth in range(1, 40)), entry("/".join(["d"] * 40), b"")
    )
    async with unpacked(provider, data) as root:
        kept = root
    assert not kept.exists()


async def test_without_zstd_it_says_what_is_missing(provider: LocalProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "defpath", "/nowhere")  # which is the PATH of a zygote
    other = LocalProvider(provider.state)
    try:
        assert other.store
        with pytest.raises(CreateFailed, match="takes the program zstd"):
            async with unpacked(other, b"", packed=b"\x28\xb5\x2f\xfd" + b"\0" * 10):
                pass
    finally:
        await other.aclose()
    assert shutil.which("sh")
