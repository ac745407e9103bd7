"""Which changes of a build file say nothing of how tests run."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from swe_sdk.grading.build_files import MAX_BYTES, Change

MAKE = "SRCS = a.c \\\n  b.c\nOBJS = a.o b.o\nHDRS = a.h\n\ncheck: t\n\t./t $(ARGS)\n"
CMAKE = """\
# what it is made of
add_library(calc
  a.c  # first
  b.c
)
add_test(NAME one COMMAND t)
"""
CARGO = '[package]\nname = "a"\nversion = "1"\n\n[dependencies]\nx = "1"\n\n[dev-dependencies]\ny = "1"\n'
GO = "module a\n\ngo 1.20\n\nrequire (\n\tb v1.0.0\n\tc v1.0.0 // indirect\n)\n"
OWN = (b"c.c", b"sub/d.c", b"c.h", b"evil.sh", b"t.c")


def harmless(path: str, before: str, after: str, added: tuple[bytes, ...] = OWN, gone: tuple[bytes, ...] = ()) -> bool:
    return Change(path.encode(), before.encode(), after.encode(), added, gone).is_harmless


@pytest.mark.parametrize(
    ("path", "before", "old", "new"),
    [
        ("Makefile", MAKE, "b.c\n", "b.c c.c\n"),
        ("Makefile", MAKE, "b.c\n", "b.c \\\n  c.c sub/d.c\n"),
        ("Makefile", MAKE, "a.c \\", "./c.c a.c \\"),
        ("Makefile", MAKE, "a.o b.o", "a.o c.o b.o"),
        ("Makefile", MAKE, "a.h", "a.h c.h"),
        ("sub/Makefile.am", MAKE, "b.c\n", "b.c $(srcdir)/d.c\n"),
        ("sub/Makefile", MAKE, "b.c\n", "b.c d.c ../c.c\n"),
        ("CMakeLists.txt", CMAKE, "  b.c\n", "  b.c\n  c.c\n"),
        ("CMakeLists.txt", CMAKE, "  b.c\n", "  b.c\n  ${CMAKE_CURRENT_SOURCE_DIR}/c.c sub/d.c\n"),
        ("Cargo.toml", CARGO, 'version = "1"', 'version = "2"\ndescription = "d"'),
        ("Cargo.toml", CARGO, 'x = "1"', 'x = "2"\nz = { path = "z", optional = true }'),
        ("Cargo.toml", CARGO, "[dev", '[features]\nmore = ["x"]\n[dev'),
        ("go.mod", GO, "b v1.0.0", "b v1.2.0"),
        ("go.mod", GO, ")\n", ")\nrequire d v1.0.0 // a comment\n"),
        ("go.mod", GO, " // indirect", ""),
    ],
)
def test_lists_of_ones_own_files_and_what_a_package_is_made_of(path: str, before: str, old: str, new: str) -> None:
    assert old in before
    assert harmless(path, before, before.replace(old, new, 1))
    assert harmless(path, before, before)


@pytest.mark.parametrize(
    ("path", "before", "old", "new"),
    [
        ("Makefile", MAKE, "b.c\n", "b.c other.c\n"),
        ("Makefile", MAKE, "b.c\n", "b.c c.c \n\tcheck: evil\n"),
        ("Makefile", MAKE, "b.c\n", "c.c\n"),
        ("Makefile", MAKE, "a.c \\\n  b.c", "b.c a.c"),
        ("Makefile", MAKE, "./t", "./evil.sh ./t"),
        ("Makefile", MAKE, "./t", "c.c ./t"),
        ("Makefile", MAKE, "./t", "t.c"),
        ("Makefile", MAKE, "./t $(ARGS)", "@echo ok"),
        ("Makefile", MAKE, "check: t", "check:"),
        ("Makefile", MAKE, "SRCS", "SHELL = ./evil.sh\nSRCS"),
        ("Makefile", MAKE, "a.h", "a.h c.c"),
        ("Makefile", MAKE, "a.o b.o", "a.o e.o b.o"),
        ("Makefile", MAKE, "a.c", "-fevil a.c"),
        ("Makefile", MAKE, "b.c\n", "b.c $(evil)\n"),
        ("Makefile", MAKE, "b.c\n", "b.c /testbed/c.c\n"),
        ("CMakeLists.txt", CMAKE, "COMMAND t", "COMMAND true"),
        ("CMakeLists.txt", CMAKE, "  b.c\n)", "  b.c)\nset(X c.c"),
        ("CMakeLists.txt", CMAKE, "  a.c  # first\n  b.c", "  a.c  # first b.c"),
        ("CMakeLists.txt", CMAKE, "  b.c", "  #b.c\n  c.c"),
        ("CMakeLists.txt", CMAKE, "# what it is made of\n", ""),
        ("CMakeLists.txt", CMAKE, ")\nadd_test", 'include("c.c")\nadd_test'),
        ("Cargo.toml", CARGO, 'version = "1"', 'version = "1"\nbuild = "x.rs"'),
        ("Cargo.toml", CARGO, 'version = "1"', 'version = "1"\nautotests = false'),
        ("Cargo.toml", CARGO, 'x = "1"', 'x = "1"\nstd = { path = "evil" }'),
        ("Cargo.toml", CARGO, 'y = "1"', 'y = { path = "evil" }'),
        ("Cargo.toml", CARGO, "[dev", '[[test]]\nname = "t"\nharness = false\n[dev'),
        ("Cargo.toml", CARGO, "[dev", '[patch.crates-io]\ny = { path = "evil" }\n[dev'),
        ("Cargo.toml", CARGO, "[dev", "[lib]\nproc-macro = true\n[dev"),
        ("Cargo.toml", CARGO, "[dev", "[dev"[:2]),
        ("go.mod", GO, ")\n", ")\nreplace b => ./evil\n"),
        ("go.mod", GO, "go 1.20", "go 1.21"),
        ("go.mod", GO, "module a", "module b"),
        ("configure.ac", MAKE, "b.c\n", "b.c c.c\n"),
        ("pom.xml", "<a/>\n", "a", "b"),
    ],
)
def test_anything_else_calls_for_a_second_look(path: str, before: str, old: str, new: str) -> None:
    assert old in before
    assert not harmless(path, before, before.replace(old, new, 1))


def test_what_may_leave_a_list_is_gone_from_the_tree() -> None:
    after = MAKE.replace("b.c", "", 1).replace(" b.o", "", 1)
    assert not harmless("Makefile", MAKE, after)
    assert harmless("Makefile", MAKE, after, gone=(b"b.c",))
    assert not harmless("Makefile", MAKE, after, gone=(b"old/b.c",)), "another file of that name proves nothing"
    assert harmless("Makefile", MAKE, MAKE.replace("b.c", "c.c", 1).replace("b.o", "c.o", 1), gone=(b"b.c",))


@pytest.mark.parametrize(("name", "expected"), [("Cargo.toml", True), ("go.mod", False), ("Makefile", False)])
def test_new_files(name: str, expected: bool) -> None:
    """A new crate declares itself; a new Makefile could be found before the one that was meant."""
    content = {"Cargo.toml": CARGO.replace("dev-dependencies", "features"), "go.mod": GO, "Makefile": MAKE}[name]
    assert harmless(name, "", content) == expected


def test_what_is_no_text_or_very_large_is_never_harmless() -> None:
    assert not Change(b"Makefile", b"\xff\n", b"\xff\n").is_harmless
    large = MAKE + "x" * MAX_BYTES
    assert not harmless("Makefile", large, large)
    many = "SRCS = " + "a.c " * 30_000
    assert not harmless("Makefile", many, many)


WORDS = st.lists(
    st.sampled_from(["a.c", "b.c", "c.c", "c.o", "\n", " ", "\t", "\\\n", "#", '"', "(", ")", ":", "=", "./t", "c.h"])
    | st.text(max_size=3),
    max_size=12,
).map(" ".join)


OWN_WORDS = {"c.c", "c.h", "c.o", "./c.c", "./c.h", "./c.o"}


def other_words(text: str) -> list[str]:
    return [word for word in re.findall(r"[^\s()\"';=:,\[\]\\]+", text) if word not in OWN_WORDS]


@given(before=WORDS, inserted=WORDS, at=st.integers(0, 80), path=st.sampled_from(["Makefile", "CMakeLists.txt"]))
@example("a.c", " c.c", 3, "Makefile")
def test_nothing_but_words_of_ones_own_files_is_ever_let_through(
    before: str, inserted: str, at: int, path: str
) -> None:
    after = before[:at] + inserted + before[at:]
    if harmless(path, before, after):
        assert other_words(after) == other_words(before)
        assert after.count("\t") - inserted.count("\t") == before.count("\t")


@given(st.binary(max_size=200), st.binary(max_size=200), st.sampled_from(["Cargo.toml", "go.mod", "Makefile", "a.mk"]))
def test_no_bytes_are_too_strange(before: bytes, after: bytes, path: str) -> None:
    assert Change(path.encode(), before, after, OWN, OWN).is_harmless in (True, False)
