"""Where a path leads is known before anything is mounted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from swe_sdk.sandbox.boxside.placing import resolve


def layer(root: Path, *entries: str) -> str:
    """A directory with directories, and links as "name -> target"."""
    for entry in entries:
        name, _, target = entry.partition(" -> ")
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target) if target else path.mkdir(exist_ok=True)
    return str(root)


@pytest.mark.parametrize(
    ("links", "path", "leads_to"),
    [
        (["a"], "/a/b", "/a/b"),
        (["a -> /x"], "/a/b", "/x/b"),
        (["a -> ../../../../etc"], "/a/b", "/etc/b"),
        (["x", "x/y -> z", "x/z"], "/x/y/b", "/x/z/b"),
        (["x", "x/y -> ../w"], "/x/y/b", "/w/b"),
        (["a -> b", "b -> /c/d", "c"], "/a", "/c/d"),
        (["a -> /oldroot/etc"], "/a/b", "/oldroot/etc/b"),
        ([], "/not/there", "/not/there"),
        (["a -> ."], "/a/a/a/b", "/b"),
    ],
)
def test_links_are_followed_within_the_layers(tmp_path: Path, links: list[str], path: str, leads_to: str) -> None:
    assert resolve([layer(tmp_path / "top", *links)], path) == leads_to


def test_the_topmost_layer_that_has_a_name_decides(tmp_path: Path) -> None:
    upper = layer(tmp_path / "upper", "a", "b -> /up")
    lower = layer(tmp_path / "lower", "a -> /elsewhere", "b", "c -> /down")
    assert [resolve([upper, lower], f"/{name}/x") for name in "abc"] == ["/a/x", "/up/x", "/down/x"]


def test_links_in_circles_lead_nowhere(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="symbolic"):
        resolve([layer(tmp_path / "top", "a -> b", "b -> a")], "/a")


def test_what_is_no_directory_has_nothing_below_it(tmp_path: Path) -> None:
    top, lower = tmp_path / "top", layer(tmp_path / "lower", "a", "a/b -> /x")
    top.mkdir()
    (top / "c").write_text("a file")
    os.mkfifo(top / "d")
    assert [resolve([str(top), lower], path) for path in ("/c/e", "/d", "/a/b")] == ["/c/e", "/d", "/x"]
