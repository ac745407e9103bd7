"""Which files of a submission can bend its own verdict without touching what it is asked to repair. Pure.

Honest patches touch such files too, so their being touched proves nothing; it calls for a second look
(:mod:`swe_sdk.grading.second_run`).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Container, Iterable, Sequence

from swe_sdk.grading.runner_names import builds, configures, tools_of
from swe_sdk.grading.words import shell_words
from swe_sdk.model.patch import Patch
from swe_sdk.model.task import GradingSpec

_OWN_RUNNERS = frozenset(
    b"tests/runtests.py django/test/runner.py bin/test sympy/testing/runtests.py sympy/utilities/runtests.py".split()
)
"""Runners that are part of the repository which they test."""
_TEST_FOLDERS = frozenset((b"tests", b"test", b"__tests__", b"spec", b"specs"))
_TEST_MODULE = re.compile(
    rb"tests?\.py|test[_-].*|.*[_-]tests?\.\w+|.*\.(?:test|spec)\.\w+|.*_spec\.\w+"
    rb"|.*(?:Tests?|Spec|IT)\.(?:java|kt|groovy|scala|php|cs|swift)"
)
_SHADOWED = frozenset(name.encode() for name in sys.stdlib_module_names) | frozenset(
    # of the standard library until Python 3.11 and 3.12: ours may be younger than the box's
    b"asynchat asyncore distutils imp smtpd aifc audioop cgi cgitb chunk crypt imghdr lib2to3 mailcap msilib nis"
    b" nntplib ossaudiodev pipes sndhdr spwd sunau telnetlib uu xdrlib _distutils_hack"
    b" pytest _pytest py pluggy iniconfig packaging attr attrs toml tomli more_itertools atomicwrites wcwidth pathlib2"
    b" exceptiongroup importlib_metadata colorama pygments typing_extensions xdist hypothesis coverage nose".split()
)
_MODULE = re.compile(rb"([^/.]+)(?:\.py|/__init__\.py)")
_OTHER_MODULES = re.compile(
    rb"""
      (?:.*/)?(?:org/(?:junit|testng|hamcrest|opentest4j)|junit/framework)/.*\.(?:java|kt)  # classes go before jars
    | (?:.*/)?lib/(?:minitest|rspec|test/unit|power_assert)(?:/.*)?\.rb                     # as lib goes before gems
    | (?:.*/)?lib/(?:Test/(?:More|Simple|Builder|Harness)|Test2)(?:/.*)?(?:\.pm)?
    | (?:src/|lib/)?(?:busted|luassert|luaunit)(?:/.*)?\.lua
    """,
    re.VERBOSE,
)
"""Runners of other languages, where a repository can have files that are found before theirs."""


def touched_paths(patch: Patch) -> tuple[bytes, ...]:
    """Every path of a patch, old names and new ones, without repeats."""
    return tuple(dict.fromkeys(path for file in patch.files for path in file.paths))


def runner_files(
    paths: Sequence[bytes], spec: GradingSpec, in_base: Container[bytes] = (), harmless: Container[bytes] = ()
) -> tuple[bytes, ...]:
    """Which changed ``paths`` decide how the hidden tests run, in their order, but for the hidden tests themselves.

    * Files that configure a runner or an interpreter, wherever they lie, and runners that the repository brings along;
      files that the test command names.
    * Files by which the programs of the test command build (``Makefile``, ``pom.xml``), but for ``harmless`` ones: see
      :func:`build_files`.
    * What is imported in the place of something else: compiled code, a package beside a hidden test of its name, and
      (where they are not ``in_base``) modules at the top named like one of the standard library or of pytest.
    * Whatever surrounds the hidden tests in their folder, such as ``tests/__init__.py``, but for new test modules:
      those that are ``in_base`` may hold what hidden tests inherit.
    """
    hidden = frozenset(touched_paths(spec.test_patch))
    rules = _Rules(hidden, spec)

    def decides(path: bytes) -> bool:
        if rules.matches(path) or (rules.builds(path) and path not in harmless):
            return True
        return rules.is_test_beside(path) if path in in_base else rules.shadows_a_module(path)

    return tuple(path for path in paths if path not in hidden and decides(path))


def shadowing(paths: Sequence[bytes], spec: GradingSpec) -> list[bytes]:
    """Those of ``paths`` of which :func:`runner_files` must know whether they are in the base."""
    rules = _Rules(frozenset(touched_paths(spec.test_patch)), spec)
    return [path for path in paths if rules.shadows_a_module(path) or rules.is_test_beside(path)]


def build_files(paths: Sequence[bytes], spec: GradingSpec) -> list[bytes]:
    """Those of ``paths`` that are runner files only for what they say of the build, which may be harmless."""
    hidden = frozenset(touched_paths(spec.test_patch))
    rules = _Rules(hidden, spec)
    return [path for path in paths if path not in hidden and rules.builds(path) and not rules.matches(path)]


def shown(paths: Iterable[bytes]) -> list[str]:
    """Paths as sorted text."""
    return sorted(path.decode("utf-8", "backslashreplace") for path in paths)


class _Rules:
    """What the hidden tests and their command single out."""

    def __init__(self, hidden: frozenset[bytes], spec: GradingSpec) -> None:
        folders = {path.rpartition(b"/")[0] for path in hidden}
        roots = {root for path in hidden if (root := _test_root(path)) is not None}
        self._named = _paths_in(spec.test_command)
        self._tools = tools_of(shell_words(f"{spec.prelude}\n{spec.test_command}"))
        self._test_roots = tuple(root + b"/" for root in roots)
        self._import_roots = tuple(root + b"/" if root else b"" for root in {b"", b"src", b"lib", *roots, *folders})
        self._packages = tuple({path.removesuffix(b".py") + b"/" for path in hidden if path.endswith(b".py")})
        above = {parent + b"/" for path in hidden for parent in _parents(path)} | {b""}
        asked_for = touched_paths(spec.gold_patch) if spec.gold_patch is not None else ()
        self._packages_above = {parent + b"__init__.py" for parent in above}.difference(asked_for)
        self._test_folders = roots | {
            parent for path in hidden for parent in _parents(path) if _test_root(parent + b"/")
        }

    def matches(self, path: bytes) -> bool:
        """Whether a rule of :func:`runner_files` holds for a path, new or not."""
        return (
            configures(path)
            or path in self._named
            or path in _OWN_RUNNERS
            or self._shadows_a_hidden_test(path)
            or self._surrounds_hidden_tests(path)
        )

    def builds(self, path: bytes) -> bool:
        """Whether a program of the test command takes from this file how it builds and tests."""
        return builds(path, self._tools)

    def _shadows_a_hidden_test(self, path: bytes) -> bool:
        """A package goes before a module of its name, and a module before a folder that is no package."""
        return path.startswith(self._packages) or path.removesuffix(b".py") in self._test_folders

    def shadows_a_module(self, path: bytes) -> bool:
        """Whether a new module would be imported in the place of one that has nothing to do with the repository.

        Or before the tests are: pytest imports the packages around them.
        """
        if path in self._packages_above or _OTHER_MODULES.fullmatch(path) is not None:
            return True
        below = (path[len(root) :] for root in self._import_roots if path.startswith(root))
        names = (match[1] for rest in below if (match := _MODULE.fullmatch(rest)) is not None)
        return any(name in _SHADOWED or name.startswith(b"pytest_") for name in names)

    def is_test_beside(self, path: bytes) -> bool:
        """Whether it is a test module in a folder of hidden tests."""
        return path.startswith(self._test_roots) and _TEST_MODULE.fullmatch(path.rpartition(b"/")[2]) is not None

    def _surrounds_hidden_tests(self, path: bytes) -> bool:
        return path.startswith(self._test_roots) and _TEST_MODULE.fullmatch(path.rpartition(b"/")[2]) is None


def _parents(path: bytes) -> list[bytes]:
    parts = path.split(b"/")
    return [b"/".join(parts[:depth]) for depth in range(1, len(parts))]


def _test_root(path: bytes) -> bytes | None:
    """The outermost folder of a hidden test that holds tests by its name; None where it lies in no such folder."""
    names = ((parent, parent.rpartition(b"/")[2]) for parent in _parents(path))
    return next((parent for parent, name in names if name in _TEST_FOLDERS or parent == b"testing"), None)


def _paths_in(command: str) -> frozenset[bytes]:
    """Words of a command that may be paths of the repository, without what selects a part of a file."""
    words = (word.partition("::")[0] for word in shell_words(command))
    return frozenset(re.sub(r"^(?:\./)+", "", word).encode("utf-8", "surrogateescape") for word in words)
