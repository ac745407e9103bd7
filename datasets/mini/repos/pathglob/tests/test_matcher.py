import pytest

from pathglob import PatternSet, filter_paths, matches


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("src/*.py", "src/app.py"),
        ("file?.txt", "file1.txt"),
        ("[a-c]x", "bx"),
        ("[!a-c]x", "dx"),
        ("[]x]", "]"),
        ("src/**", "src/a/b.py"),
        ("**/*.py", "src/a/b.py"),
        ("docs/**/index.md", "docs/api/v1/index.md"),
    ],
)
def test_matches(pattern, path):
    assert matches(pattern, path)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("src/*.py", "src/a/app.py"),
        ("src/*.py", "lib/src/app.py"),
        ("file?.txt", "file10.txt"),
        ("a?b", "a/b"),
        ("[a-c]x", "dx"),
        ("[!a]b", "/b"),
        ("docs/**/index.md", "blog/docs/index.md"),
    ],
)
def test_does_not_match(pattern, path):
    assert not matches(pattern, path)


def test_filter_keeps_the_order():
    assert filter_paths("*.md", ["b.md", "a.txt", "a.md"]) == ["b.md", "a.md"]


def test_last_rule_decides():
    rules = PatternSet.from_text("# logs\nlogs/**\n!logs/keep.log\n")
    assert rules.selects("logs/run/x.log")
    assert not rules.selects("logs/keep.log")
    assert not rules.selects("app.py")
