"""Random stacks of layers look in a box as the image specification says that they should."""

from __future__ import annotations

import functools
import tarfile
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from swe_sdk.sandbox.contract import SandboxSpec
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from tests.sandbox.images.oci import LiveRegistry, MadeImage, entry, layer, link, system

Tree = dict[str, str]
"""Path to kind: "dir", a link's target after "->", or a file's content."""
_NAMES = st.sampled_from(["a", "b", "c"])
_PATHS = st.lists(_NAMES, min_size=1, max_size=3).map("/".join)
_ENTRIES = st.one_of(
    st.tuples(st.just("dir"), _PATHS, st.just("")),
    st.tuples(st.just("file"), _PATHS, st.sampled_from(["1", "2"])),
    st.tuples(st.just("link"), _PATHS, st.just("nowhere")),
    st.tuples(st.just("hide"), _PATHS, st.just("")),
    st.tuples(st.just("opaque"), _PATHS, st.just("")),
)


@dataclass
class LayerModel:
    """What one layer says: what it brings, what it hides, and in which directories it hides all."""

    own: Tree = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)
    opaque: set[str] = field(default_factory=set)

    def add(self, kind: str, path: str, value: str) -> bool:
        """Take an entry; False where no archive of sense has it: below a file or a link of its own."""
        parents = _parents(path) + ([path] if kind == "opaque" else [])
        if any(self.own.get(parent, "dir") != "dir" for parent in parents):
            return False
        if kind == "opaque":
            self.opaque.add(path)
        for parent in parents:
            self.own.setdefault(parent, "dir")
        if kind == "hide":
            self.hidden.add(path)
        elif kind == "dir":
            self.own[path] = "dir"
        elif kind in ("file", "link"):
            self.own = {known: what for known, what in self.own.items() if not known.startswith(f"{path}/")}
            self.hidden = {known for known in self.hidden if not known.startswith(f"{path}/")}
            self.opaque = {known for known in self.opaque if not f"{known}/".startswith(f"{path}/")}
            self.own[path] = f"->{value}" if kind == "link" else value
        return True

    def over(self, below: Tree) -> Tree:
        return {path: what for path, what in below.items() if not self._hides(path)} | self.own

    def _hides(self, path: str) -> bool:
        above = _parents(path)
        replaced = any(self.own.get(parent, "dir") != "dir" for parent in above)
        return replaced or any(p in self.hidden for p in (*above, path)) or any(p in self.opaque for p in above)


def _parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]


def _entry(kind: str, path: str, value: str) -> tuple[tarfile.TarInfo, bytes]:
    parent, _, name = f"r/{path}".rpartition("/")
    match kind:
        case "dir":
            return entry(f"r/{path}/")
        case "file":
            return entry(f"r/{path}", value.encode())
        case "link":
            return link(f"r/{path}", value)
        case "hide":
            return entry(f"{parent}/.wh.{name}", b"")
        case _:
            return entry(f"r/{path}/.wh..wh..opq", b"")


def _is_directory(path: str, tree: Tree) -> bool:
    """Overlayfs shows whiteouts in a directory that no lower layer has, in engines as here."""
    return path == "" or tree.get(path) == "dir"


_LIST = (
    "find . -mindepth 1 -type d -exec echo dir {} ';'"
    " -o -type l -exec sh -c 'echo \"->$(readlink \"$1\") $1\"' sh {} ';'"
    " -o -type f -exec sh -c 'echo \"$(cat \"$1\") $1\"' sh {} ';'"
)


async def _files(provider: LocalProvider, image: str) -> Tree:
    box = await provider.create(SandboxSpec(image=image, workdir="/r"))
    try:
        result = await box.exec(_LIST, timeout_s=30)
        assert result.ok, result.stderr
        lines = (line.split(" ./") for line in result.stdout.splitlines())
        return {path: what for what, path in lines}
    finally:
        await box.close()


@pytest.fixture
def base(busybox: bytes, tmp_path: Path) -> bytes:
    return system(busybox, entry("r/"))


def test_layers_amount_to_what_the_specification_says(
    provider: LocalProvider, registry: LiveRegistry, base: bytes
) -> None:
    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(st.lists(_ENTRIES, max_size=8), min_size=1, max_size=4))
    def check(script: list[list[tuple[str, str, str]]]) -> None:
        layers, tree = [base], Tree()
        for entries in script:
            model = LayerModel()
            sensible = [
                each for each in entries if each[0] != "hide" or _is_directory(each[1].rpartition("/")[0], tree)
            ]
            taken = [each for each in sensible if model.add(*each)]
            layers.append(layer(*(_entry(*each) for each in taken)))
            tree = model.over(tree)
        image = registry.push("random", MadeImage(layers, packing=""))
        anyio.run(functools.partial(provider.ensure_image, image, refresh=True))
        assert anyio.run(_files, provider, image) == tree

    check()
