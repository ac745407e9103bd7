"""Which paths can bend a verdict, and which honest ones are left in peace."""

from __future__ import annotations

import pytest

from swe_sdk.grading.runner_files import build_files, runner_files, shadowing, touched_paths
from swe_sdk.model.patch import Patch
from swe_sdk.model.task import GradingSpec
from swe_sdk.recipes.dataset import load_tasks
from tests.grading.tiny import GOLD, TEST_PATCH, diff
from tests.shared import shared_dir


def spec(*hidden: str, command: str = "run") -> GradingSpec:
    return GradingSpec(
        test_patch=Patch.of(diff({}, dict.fromkeys(hidden, "x\n"))), test_command=command, parser="pytest"
    )


def found(path: str, grading: GradingSpec, *, changed: bool = False) -> bool:
    return runner_files([path.encode()], grading, {path.encode()} if changed else ()) != ()


PKG = spec("pkg/core/tests/test_core.py", command="pytest -rA pkg/core/tests/test_core.py ./tools/run.sh x/y.py::T")
TOP = spec("tests/test_top.py", "tests/unit/test_deep.py", "tests/data/new.txt")

RUNNERS = """
conftest.py pkg/deep/conftest.py pytest.ini .pytest.ini pytest.toml tox.ini setup.cfg setup.py pyproject.toml noxfile.py
sitecustomize.py src/usercustomize.py evil.pth a/b.pth .coveragerc .env .flaskenv .envrc .gitattributes
docs/.gitattributes package.json web/package.json .npmrc .mocharc.json .mocharc.cjs .mocharc jest.config.ts
vitest.config.mjs vite.config.js
vitest.workspace.ts karma.conf.js babel.config.json .babelrc .babelrc.js tsconfig.json tsconfig.test.json .nycrc .taprc
node_modules/mocha/index.js a/site-packages/x.py pkg.egg-info/entry_points.txt src/pkg.egg-info/PKG-INFO
x-1.dist-info/METADATA pkg/__pycache__/core.cpython-311.pyc pkg/core.so tests/test_top.cpython-311-x86_64-linux-gnu.so
unittest.cfg nose2.cfg .noserc hatch.toml bunfig.toml deno.json jest.setup.js jest.setup.ts vitest.setup.mts
jest-setup.js setupTests.ts src/setup-jest.js gulpfile.js Gruntfile.js __mocks__/fs.js src/__mocks__/a.ts
__snapshots__/a.snap .rspec .rspec-local spec_helper.rb engines/x/rails_helper.rb .bundle/config cucumber.yml
phpunit.xml phpunit.xml.dist phpunit.dist.xml a/phpunit.xml Pest.php codeception.yml .proverc .busted
.yarn/releases/yarn-4.1.0.cjs .pnp.loader.mjs
.cargo/config.toml crates/x/.cargo/config .mvn/jvm.config junit-platform.properties
src/main/resources/META-INF/services/org.junit.jupiter.api.extension.Extension
lib/x.jar target/classes/A.class src/calc.o libx.a x.dylib
tests/runtests.py django/test/runner.py bin/test sympy/testing/runtests.py d\xe9/tox.ini
"""
HONEST = """
pkg/core.py my_conftest.py docs/conf.py setup.cfg.txt pkg/setup_helpers.py README.md package.json.md pkg/json.py
pkg/core/random.py src/pkg/types.py pkg/tests.py lib/pkg/io/__init__.py environment.yml Cargo.lock go.sum
src/_pytest/logging.py changelog/1.rst requirements.txt pkg/testing.py .gitignore src/setup.js src/mocks/a.js
src/main/resources/META-INF/services/com.example.Spi lib/rspec_helper.rb src/org/junitpioneer/A.java src/a.oo
"""


@pytest.mark.parametrize("path", RUNNERS.split())
def test_files_of_runners_wherever_they_lie(path: str) -> None:
    for grading in (PKG, TOP, spec()):
        assert found(path, grading)
        assert found(path, grading, changed=True)


@pytest.mark.parametrize("path", HONEST.split())
def test_files_of_the_project(path: str) -> None:
    for grading in (PKG, TOP, spec()):
        assert not found(path, grading)
        assert not found(path, grading, changed=True)


BUILDS = {
    "make -s check": "Makefile src/GNUmakefile lib/Makefile.am a.mk CMakeLists.txt a/x.cmake configure.ac meson.build",
    "cd b && ../configure && ctest": "CMakeLists.txt CTestTestfile.cmake CMakePresets.json build-aux/tap-driver.sh",
    "ctest --test-dir b": "b/CMakeCache.txt b/CTestCustom.ctest b/DartConfiguration.tcl b/CMakeFiles/x.dir/flags.make",
    "cargo test --offline": "Cargo.toml crates/a/Cargo.toml build.rs rust-toolchain.toml .config/nextest.toml",
    "go test ./...": "go.mod go.work main_test.go pkg/x_test.go vendor/modules.txt vendor/a/b.go",
    "./gradlew test": "build.gradle settings.gradle.kts gradle.properties gradlew gradle/wrapper/gradle-wrapper.jar",
    "mvn -q test": "pom.xml core/pom.xml buildSrc/a.groovy testng-smoke.xml",
    "bundle exec rspec": "Rakefile lib/tasks/x.rake Gemfile Gemfile.lock x.gemspec vendor/gems/a.rb",
    "vendor/bin/phpunit": "composer.json composer.lock vendor/autoload.php",
    "mix test": "mix.exs",
    "dart test": "dart_test.yaml pubspec.yaml",
    "dotnet test": "a.csproj Directory.Build.props x.runsettings a/xunit.runner.json",
}


@pytest.mark.parametrize("command", BUILDS)
def test_files_of_a_build_count_where_the_command_builds_by_them(command: str) -> None:
    before = GradingSpec(prelude=f"{command} || true", test_command="pytest", parser="pytest")
    unknown, others = spec(command="./run.sh"), [spec(command="python -m pytest -rA"), spec(command="npm test")]
    for path in BUILDS[command].split():
        assert found(path, spec(command=command)), path
        assert found(path, unknown), f"nobody knows what that starts: {path}"
        assert found(path, before), path
        assert path.endswith(".jar") or not any(found(path, other) for other in others), path


def test_builds_are_harmless_or_not_and_others_never_are() -> None:
    grading = spec("Makefile.test", command="make check; sh run.mk")
    paths = [b"Makefile", b"Makefile.test", b"run.mk", b"x.mk", b"a.c", b"tox.ini"]
    assert build_files(paths, grading) == [b"Makefile", b"x.mk"], "not the hidden one, nor one that the command names"
    assert runner_files(paths, grading) == (b"Makefile", b"run.mk", b"x.mk", b"tox.ini")
    assert runner_files(paths, grading, harmless=paths) == (b"run.mk", b"tox.ini")


SHADOWS = """
src/main/java/org/junit/Assert.java org/junit/jupiter/api/Test.java core/src/junit/framework/TestCase.java
lib/minitest/autorun.rb lib/minitest.rb lib/test/unit.rb gems/x/lib/rspec/core.rb busted.lua src/luassert/init.lua
lib/Test/More.pm
"""


@pytest.mark.parametrize("path", SHADOWS.split())
def test_new_files_in_the_place_of_other_languages_runners(path: str) -> None:
    assert found(path, PKG)
    assert not found(path, PKG, changed=True), "what is there already belongs to the repository"


def test_files_that_the_command_names() -> None:
    assert found("tools/run.sh", PKG)
    assert found("x/y.py", PKG)
    assert not found("tools/other.sh", PKG)


@pytest.mark.parametrize(
    ("path", "grading", "expected"),
    [
        ("tests/__init__.py", TOP, True),
        ("tests/unit/__init__.py", TOP, True),
        ("tests/helpers.py", TOP, True),
        ("tests/data/other.txt", TOP, True),
        ("tests/test_mine.py", TOP, False),
        ("tests/unit/mine_test.py", TOP, False),
        ("tests/app/tests.py", TOP, False),
        ("test/parse.test.js", spec("test/other.test.js"), False),
        ("test/setup.js", spec("test/other.test.js"), True),
        ("src/test/java/a/MineTest.java", spec("src/test/java/a/OtherTest.java"), False),
        ("src/test/java/a/Helper.java", spec("src/test/java/a/OtherTest.java"), True),
        ("tests/MineTest.php", spec("tests/OtherTest.php"), False),
        ("tests/bootstrap.php", spec("tests/OtherTest.php"), True),
        ("other/tests/__init__.py", TOP, False),
        ("pkg/core/tests/__init__.py", PKG, True),
        ("pkg/tests/helpers.py", PKG, False),
        ("pkg/__init__.py", PKG, True),
        ("__init__.py", PKG, True),
        ("pkg/other/__init__.py", PKG, False),
        ("testing/helpers.py", spec("testing/test_a.py"), True),
        ("pkg/testing/helpers.py", spec("pkg/testing/test_a.py"), False),
    ],
)
def test_what_surrounds_the_hidden_tests(path: str, grading: GradingSpec, expected: bool) -> None:
    assert found(path, grading) == expected


@pytest.mark.parametrize("root", ["", "src/", "lib/", "tests/", "tests/unit/"])
@pytest.mark.parametrize("name", ["pytest.py", "_pytest/__init__.py", "shlex.py", "json/__init__.py", "pytest_evil.py"])
def test_new_modules_in_the_place_of_others(root: str, name: str) -> None:
    assert found(root + name, TOP)
    in_tests = root.startswith("tests/")
    assert found(root + name, TOP, changed=True) == in_tests, "what is there already shadows nothing new"
    assert not found(f"pkg/{root}{name}", TOP)


@pytest.mark.parametrize("path", ["tests/test_top/__init__.py", "tests/test_top/x.txt", "tests.py", "tests/unit.py"])
def test_packages_and_modules_in_the_place_of_hidden_tests(path: str) -> None:
    assert found(path, TOP)


def test_hidden_tests_are_none_of_them() -> None:
    """They are restored in any case, whatever their names are."""
    grading = spec("tests/conftest.py", "setup.cfg", command="pytest tests/test_x.py")
    assert runner_files([b"tests/conftest.py", b"tox.ini", b"setup.cfg"], grading) == (b"tox.ini",)


def test_only_of_some_paths_it_matters_whether_they_are_new() -> None:
    assert shadowing([b"shlex.py", b"conftest.py", b"pkg/shlex.py", b"src/json/__init__.py", b"tests/ast.py"], TOP) == [
        b"shlex.py",
        b"src/json/__init__.py",
        b"tests/ast.py",
    ]


def test_both_names_of_a_moved_file() -> None:
    moved = b"diff --git a/conftest.py b/x.py\nsimilarity index 100%\nrename from conftest.py\nrename to x.py\n"
    assert runner_files(touched_paths(Patch.of(moved)), TOP) == (b"conftest.py",)


def test_nothing_is_suspected_without_reason() -> None:
    grading = GradingSpec(test_patch=Patch.of(TEST_PATCH), test_command="sh tests/check.sh '", parser="pytest")
    assert runner_files(touched_paths(Patch.of(GOLD)), grading) == ()
    assert runner_files((), grading) == ()


@pytest.mark.shared
@pytest.mark.parametrize("name", ["rows/swe-bench/verified_v5.jsonl", "swebench_sdist/tasks.jsonl"])
def test_gold_patches_of_real_tasks_need_no_second_run(name: str) -> None:
    for task in load_tasks(shared_dir() / "datasets" / name):
        gold = task.grading.gold_patch
        assert gold is not None
        assert runner_files(touched_paths(gold), task.grading) == (), task.instance_id
