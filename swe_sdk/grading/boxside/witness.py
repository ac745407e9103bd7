"""Keep a record of the tests that run in this process, in a file outside of the repository.

The shell that runs the tests has the folder of this file, there named sitecustomize.py, on its PYTHONPATH: each Python
that it starts imports it before anything else. It takes back at once what it was started by, so neither the program
nor its children see another path or variable, and waits for the one test runner that it was told of. It prints nothing
and holds no file open, and where anything of its own goes wrong the tests go on without it.

A record is a line: a status, a space, and the test's name in hexadecimal UTF-8. It is appended as soon as the test's
result is known, so that no later line of the program can take it back.

Python 3.5 and later, and no import but os and sys: the tests shall find what they would have found without us.
"""

import os
import sys

MYPY = False
if MYPY:
    from typing import Any

ORDER = "SWE_SDK_WITNESS"
"""The variable that says what to do: a runner, the file of the records, and whether there was a PYTHONPATH."""
PLUGIN = "swe_sdk_witness"

_open, _write, _close, _getpid = os.open, os.write, os.close, os.getpid  # tests may put others in their places


class Records:
    """The file of the records. It is opened for each of them: tests may close every descriptor that they find."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._pid = _getpid()

    def add(self, status: str, name: str) -> None:
        """Write down a result; of this process alone, for what a forked child reports its parent hears of too."""
        if _getpid() != self._pid:
            return
        line = status + " " + name.encode("utf-8", "surrogatepass").hex() + "\n"
        try:
            descriptor = _open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        except OSError:  # a full disk, no descriptor left, or the program has removed the file
            return
        try:
            _write(descriptor, line.encode())
        finally:
            _close(descriptor)


def watch_pytest(config: "Any", records: Records) -> None:
    """Become a plugin of the session that is about to start, and of no session within it.

    By the variable for plugins, which is as it was before as soon as the session has read it. A module that says
    PYTEST_DONT_REWRITE may have been imported already.
    """
    plugin = type(sys)(PLUGIN, "PYTEST_DONT_REWRITE")  # type: Any
    folders = []  # type: list[str]
    asked_for = os.environ.get("PYTEST_PLUGINS")

    def pytest_addoption() -> None:  # called when a plugin is registered, before any file of the repository is read
        sys.modules.pop(PLUGIN, None)
        if asked_for is None:
            os.environ.pop("PYTEST_PLUGINS", None)
        else:
            os.environ["PYTEST_PLUGINS"] = asked_for

    def pytest_configure(config: "Any") -> None:
        folders[:] = [str(getattr(config, "rootpath", None) or config.rootdir), os.getcwd()]

    @config.hookimpl(tryfirst=True)  # type: ignore[untyped-decorator]
    def pytest_runtest_logreport(report: "Any") -> None:
        try:
            status = _pytest_status(report)
            if status is not None:
                records.add(status, _as_printed(str(report.nodeid), *folders))
        except Exception:  # noqa: BLE001, S110  # a test may break anything, and the run must not notice us
            pass

    plugin.pytest_addoption = pytest_addoption
    plugin.pytest_configure = pytest_configure
    plugin.pytest_runtest_logreport = pytest_runtest_logreport
    sys.modules[PLUGIN] = plugin
    os.environ["PYTEST_PLUGINS"] = PLUGIN if not asked_for else PLUGIN + "," + asked_for


def _pytest_status(report: "Any") -> "str | None":
    """What pytest's summary calls this; None for a phase that it does not name, and for reports of subtests."""
    if type(report).__name__ != "TestReport":
        return None
    if report.outcome == "failed":
        return "FAILED" if report.when == "call" else "ERROR"
    if report.outcome == "skipped":
        return "XFAIL" if hasattr(report, "wasxfail") else "SKIPPED"
    if report.outcome == "passed" and report.when == "call":
        return "XPASS" if hasattr(report, "wasxfail") else "PASSED"
    return None


def _as_printed(name: str, root: str, start: str) -> str:
    """pytest names a test by its path from the root folder, and prints the path from where it was started."""
    if root == start:
        return name
    path, colons, rest = name.partition("::")
    return os.path.relpath(os.path.join(root, path), start) + colons + rest


UNITTEST = {
    "addSuccess": "PASSED",
    "addError": "ERROR",
    "addFailure": "FAILED",
    "addSkip": "SKIPPED",
    "addExpectedFailure": "XFAIL",
    "addUnexpectedSuccess": "FAILED",
}


def watch_unittest(result: "Any", records: Records) -> None:
    """See what the outermost TestResult is told: a test may run tests of its own."""
    kind = result.TestResult
    running = []  # type: list[Any]

    def note(self: "Any", test: "Any", status: str) -> None:
        if not running or running[0] is self:
            records.add(status, str(getattr(self, "getDescription", str)(test)))

    def start(self: "Any", test: "Any") -> None:
        if not running:
            running.append(self)

    def stop(self: "Any", test: "Any") -> None:
        if running and running[0] is self:
            running.clear()

    def subtest(self: "Any", test: "Any", subtest: "Any", error: "Any") -> None:
        if error is not None:
            note(self, test, "FAILED")

    _before(kind, "startTest", start)
    _before(kind, "stopTest", stop)
    _before(kind, "addSubTest", subtest)
    for method, status in UNITTEST.items():
        _before(kind, method, lambda self, test, *_rest, status=status: note(self, test, status))


SYMPY = {
    "test_pass": "PASSED",
    "test_fail": "FAILED",
    "test_exception": "ERROR",
    "test_skip": "SKIPPED",
    "test_xfail": "XFAIL",
    "test_xpass": "XPASS",
}


def watch_sympy(runtests: "Any", records: Records) -> None:
    """See what the reporter of sympy's own runner is told."""
    for method, status in SYMPY.items():

        def note(self: "Any", *_rest: "Any", status: str = status) -> None:
            records.add(status, str(getattr(self._active_f, "__name__", "")))

        _before(runtests.PyTestReporter, method, note)


def _before(kind: "Any", name: str, note: "Any") -> None:
    """Have ``note`` called with the same arguments before each call of a method, whatever comes of it."""
    original = getattr(kind, name)

    def method(*arguments: "Any", **named: "Any") -> "Any":
        try:
            note(*arguments, **named)
        except Exception:  # noqa: BLE001, S110  # as above
            pass
        return original(*arguments, **named)

    method.__name__, method.__qualname__, method.__doc__ = original.__name__, original.__qualname__, original.__doc__
    method.__module__ = original.__module__
    setattr(kind, name, method)


class Finder:
    """Waits until one of some modules is imported, and is gone."""

    def __init__(self, names: "tuple[str, ...]", watch: "Any", records: Records) -> None:
        self._names = names
        self._watch = watch
        self._records = records

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        """The spec that the other finders have, with a loader that calls us once it has loaded the module."""
        if name not in self._names:
            return None
        sys.meta_path.remove(self)
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target) if hasattr(finder, "find_spec") else None
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    self._follow(spec.loader)
                return spec
        return None

    def _follow(self, loader: "Any") -> None:
        load = loader.exec_module

        def exec_module(module: "Any") -> None:
            del loader.exec_module
            load(module)
            self._watch(module, self._records)

        loader.exec_module = exec_module


RUNNERS = {
    "pytest": (("_pytest.config",), watch_pytest),
    "unittest": (("unittest.result",), watch_unittest),
    "sympy": (("sympy.testing.runtests", "sympy.utilities.runtests"), watch_sympy),
}


def is_on_the_way() -> bool:
    """Whether this process is no test runner, but will start one: then that one is to find what we have found."""
    with open("/proc/self/cmdline", "rb") as arguments:
        words = arguments.read().split(b"\0")[1:3]
    return words == [b"-m", b"tox"] or [os.path.basename(word) for word in words[:1]] == [b"tox"]


def withdraw(folder: str, had_path: bool) -> None:
    """Leave the path and the environment as if we had never been in them."""
    path = os.environ.get("PYTHONPATH", "")
    if path.startswith(folder + os.pathsep):
        os.environ["PYTHONPATH"] = path[len(folder + os.pathsep) :]
    elif path == folder and had_path:
        os.environ["PYTHONPATH"] = ""
    elif path == folder:
        del os.environ["PYTHONPATH"]
    if folder in sys.path:
        sys.path.remove(folder)
    sys.path_importer_cache.pop(folder, None)


def start(runner: str, path: str) -> None:
    """Wait for a runner."""
    names, watch = RUNNERS[runner]
    records = Records(path)
    for name in names:
        if name in sys.modules:
            watch(sys.modules[name], records)
            return
    sys.meta_path.insert(0, Finder(names, watch, records))


if __name__ == "sitecustomize":
    _us = sys.modules.pop("sitecustomize")
    _folder = os.path.dirname(os.path.abspath(__file__))
    try:
        if is_on_the_way():
            sys.path.remove(_folder)
        else:
            _runner, _path, _had_path = os.environ.pop(ORDER).split(":")
            withdraw(_folder, bool(_had_path))
            start(_runner, _path)
    except Exception:  # noqa: BLE001, S110  # whatever it is, the tests must run as if we were not there
        pass
    try:
        import sitecustomize  # type: ignore[import-not-found]  # noqa: F401  # the one that would have been imported
    except ImportError as error:
        sys.modules["sitecustomize"] = _us  # else the import that brought us here fails
        if error.name != "sitecustomize":
            raise
