"""Names of files that configure test runners, interpreters and builds, language by language. Pure data."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import NamedTuple

_NAMES = frozenset(
    # Python: what pytest, nose, tox, setuptools and the interpreter itself read
    b"conftest.py pytest.ini .pytest.ini pytest.toml .pytest.toml tox.ini tox.toml noxfile.py setup.cfg setup.py"
    b" pyproject.toml hatch.toml unittest.cfg nose2.cfg nose.cfg .noserc sitecustomize.py usercustomize.py .coveragerc"
    # JavaScript
    b" package.json .npmrc .yarnrc .yarnrc.yml .pnp.cjs .pnp.js .pnp.loader.mjs .taprc .nycrc .swcrc jasmine.json"
    b" bunfig.toml deno.json deno.jsonc"
    # Ruby, PHP, Perl, Lua, shell
    b" .rspec .rspec-local spec_helper.rb rails_helper.rb test_helper.rb .simplecov cucumber.yml phpunit.xml"
    b" phpunit.xml.dist phpunit.dist.xml Pest.php codeception.yml codeception.dist.yml .user.ini .proverc .busted"
    b" setup_suite.bash junit-platform.properties"
    # variables and attributes
    b" .env .flaskenv .envrc .gitattributes".split()
)
_PATTERNS = re.compile(
    rb"""
      .*\.pth
    | .*\.(?:py[cod]|so|dylib|dll|[oa]|lo|rlib|rmeta|class|jar)     # compiled code, which goes before its source
    | \.(?:mocharc|babelrc|nycrc|c8rc)(?:\..*)?
    | (?:jest|vitest|vite|ava|babel|karma|mocha|playwright|cypress|web-test-runner)\.(?:config|conf|workspace|setup)\..*
    | (?:jest|vitest|mocha)[-_]setup\..* | setup[-_]?(?:tests?|jest|vitest|mocha)\.[cm]?[jt]sx?
    | tsconfig(?:\..*)?\.json | (?:gulp|grunt)file(?:\..*)?
    | org\.(?:junit|testng)\..*                                      # of META-INF/services: what JUnit loads by itself
    """,
    re.VERBOSE | re.IGNORECASE,
)
_FOLDERS = re.compile(
    rb"node_modules|__mocks__|__snapshots__|site-packages|__pycache__|.*\.(?:egg-info|dist-info)"
    rb"|\.cargo|\.mvn|\.bundle|\.yarn",
    re.IGNORECASE,
)


class Tools(NamedTuple):
    """Programs that build and test, and the files and folders by which they do what the repository says."""

    programs: frozenset[str]
    names: re.Pattern[bytes]
    folders: frozenset[bytes] = frozenset()


def _tools(programs: str, names: bytes, folders: bytes = b"") -> Tools:
    return Tools(frozenset(programs.split()), re.compile(names, re.VERBOSE), frozenset(folders.split()))


_TOOLS = (
    _tools(
        "make gmake bmake ninja cmake ctest meson scons just bazel bazelisk autoreconf automake configure",
        rb"""
          (?:GNU)?[Mm]akefile(?:\..*)? | .*\.(?:mk|mak|make|cmake|bzl) | CMakeLists\.txt | CMake(?:User)?Presets\.json
        | CMakeCache\.txt | .*\.ctest | DartConfiguration\.tcl      # what is taken over from an earlier build
        | configure(?:\.(?:ac|in))? | meson(?:\.build|\.options|_options\.txt) | build\.ninja | SCons(?:truct|cript)
        | [Jj]ustfile | BUILD(?:\.bazel)? | WORKSPACE(?:\.bazel)? | MODULE\.bazel | \.bazelrc
        | (?:tap|test)-driver(?:\.\w+)?
        """,
    ),
    _tools("cargo cargo-nextest cross rustc", rb"Cargo\.toml|build\.rs|rust-toolchain(?:\.toml)?|nextest\.toml"),
    _tools("go gotestsum richgo", rb"go\.(?:mod|work)|.*_test\.go", b"vendor"),
    _tools(
        "mvn mvnw gradle gradlew ant java javac sbt",
        rb"""
          pom\.xml | .*\.gradle(?:\.kts)? | gradle\.properties | (?:gradlew|mvnw)(?:\.\w+)? | gradle-wrapper\..*
        | build\.xml | ivy\.xml | testng.*\.xml | .*\.sbt
        """,
        b"buildSrc build-logic",
    ),
    _tools(
        "ruby rake rspec bundle bundler rails cucumber minitest",
        rb"Rakefile|.*\.rake|Gemfile(?:\.lock)?|.*\.gemspec",
        b"vendor",
    ),
    _tools("php phpunit composer pest codecept simple-phpunit", rb"composer\.(?:json|lock)", b"vendor"),
    _tools("mix elixir", rb"mix\.exs"),
    _tools("dart flutter", rb"dart_test\.yaml|pubspec\.yaml"),
    _tools("swift", rb"Package\.swift"),
    _tools(
        "dotnet msbuild",
        rb"""
          .*\.(?:cs|fs|vb)proj | .*\.(?:sln|runsettings|props|targets) | xunit\.runner\.json
        | nuget\.config | global\.json
        """,
    ),
)
_OTHERS = re.compile(
    r"python[\d.]*|py\.?test|tox|nox|node|npm|npx|yarn|pnpm|bun|deno|jest|mocha|vitest|ava|tap|tape|bats|prove|busted"
)
"""Programs that read nothing but what is a runner's file in any case."""


def configures(path: bytes) -> bool:
    """Whether a file is a runner's or an interpreter's wherever it lies, by its name or by a folder of its own."""
    *folders, name = path.split(b"/")
    if name in _NAMES or _PATTERNS.fullmatch(name) is not None:
        return True
    return any(_FOLDERS.fullmatch(folder) is not None for folder in folders)


def tools_of(words: Iterable[str]) -> tuple[Tools, ...]:
    """The programs that a test command starts, as far as its words tell; all of them where they tell of none."""
    names = {PurePosixPath(word).name for word in words}
    used = tuple(tools for tools in _TOOLS if not tools.programs.isdisjoint(names))
    return used if used or any(_OTHERS.fullmatch(name) for name in names) else _TOOLS


def builds(path: bytes, tools: Iterable[Tools]) -> bool:
    """Whether one of these programs takes from this file how it builds and what it tests."""
    *folders, name = path.split(b"/")
    return any(each.names.fullmatch(name) or not each.folders.isdisjoint(folders) for each in tools)
