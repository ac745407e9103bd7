"""Names of images, as Docker reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swe_sdk.errors import InputError
from swe_sdk.sandbox.images.reference import ImageReference, parse_reference
from swe_sdk.sandbox.images.settings import RegistrySettings

DIGEST = f"sha256:{'ab' * 32}"
NAMES = {
    "python": ("docker.io", "library/python", "latest", None),
    "python:3.11-slim": ("docker.io", "library/python", "3.11-slim", None),
    "swebench/sweb.eval.x86_64.a__b-1": ("docker.io", "swebench/sweb.eval.x86_64.a__b-1", "latest", None),
    "docker.io/python": ("docker.io", "library/python", "latest", None),
    "index.docker.io/a/b": ("docker.io", "a/b", "latest", None),
    "registry-1.docker.io/library/python": ("docker.io", "library/python", "latest", None),
    "ghcr.io/epoch/x:y": ("ghcr.io", "epoch/x", "y", None),
    "localhost/x": ("localhost", "x", "latest", None),
    "localhost:5000/x:y": ("localhost:5000", "x", "y", None),
    "host:5000/a/b/c": ("host:5000", "a/b/c", "latest", None),
    "UPPER/x": ("UPPER", "x", "latest", None),
    "[::1]:5000/x": ("[::1]:5000", "x", "latest", None),
    f"python@{DIGEST}": ("docker.io", "library/python", None, DIGEST),
    f"ghcr.io/a/b:c@{DIGEST}": ("ghcr.io", "a/b", "c", DIGEST),
    "docker://python:3": ("docker.io", "library/python", "3", None),
    " python ": ("docker.io", "library/python", "latest", None),
    "a/b/c-d__e.f": ("docker.io", "a/b/c-d__e.f", "latest", None),
}


@pytest.mark.parametrize("name", NAMES)
def test_names(name: str) -> None:
    registry, repository, tag, digest = NAMES[name]
    reference = parse_reference(name)
    assert reference == ImageReference(registry, repository, tag, digest)
    assert parse_reference(str(reference)) == reference
    assert reference.version == (digest or tag)


@pytest.mark.parametrize(
    "name",
    ["", ":", "a:", ":b", "/a", "a//b", "A", "a/B", "a:b:c", "a@", "a@sha256:12", f"a@{DIGEST}0", "a b", "a\nb", "-a",
     "a-", "a..b", "a___b", "a/", "../b", "a/../b", "host:port/x", "http://host/x", "ho_st.x/y", "x" * 256,
     "a:" + "t" * 129, "./local", "a\0b", "host.io/", "é"],
)  # fmt: skip
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="is no image name"):
        parse_reference(name)


@given(st.text(alphabet="aZ0.:/@-_é[] \n", max_size=40))
def test_any_text_is_a_name_or_refused(text: str) -> None:
    try:
        reference = parse_reference(text)
    except InputError:
        return
    assert parse_reference(str(reference)) == reference
    assert ".." not in reference.repository


def test_a_mirror_stands_for_docker_hub_alone() -> None:
    hub, other = parse_reference("python:3"), parse_reference("ghcr.io/a/b:c")
    assert hub.host == "registry-1.docker.io"
    assert str(hub.through("mirror:5000")) == "mirror:5000/library/python:3"
    assert str(hub.through("mirror.io/cache/hub/")) == "mirror.io/cache/hub/library/python:3"
    assert other.through("mirror:5000") == other
    assert hub.through(None) == hub
    for wrong in ("http://mirror", "mirror/UPPER", "mirror/a b", "-"):
        with pytest.raises(InputError, match="names no registry"):
            hub.through(wrong)


def test_the_environment_names_the_mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWE_SDK_REGISTRY", "mirror:5000")
    assert RegistrySettings().mirror == "mirror:5000"
    monkeypatch.setenv("SWE_SDK_REGISTRY", "")
    assert RegistrySettings().mirror is None
