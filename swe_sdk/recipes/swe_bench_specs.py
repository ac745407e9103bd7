"""How the repositories of SWE-bench Verified are prepared and tested, for rows that carry no ``eval_script``. Pure.

The facts are those of swebench 4.1.0 (``MAP_REPO_VERSION_TO_SPECS`` and ``make_eval_script_list``); 5.x rows bring
their own script instead.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from itertools import chain

from swe_sdk.model.environment import WORKDIR

_ACTIVATE = ("source /opt/miniconda3/bin/activate", "conda activate testbed")
_EDITABLE = "python -m pip install -e ."
_DJANGO = "./tests/runtests.py --verbosity 2 --settings=test_sqlite --parallel 1"
_UTF8 = ("export LANG=en_US.UTF-8", "export LC_ALL=en_US.UTF-8")
_OLD_LOCALE = (*_UTF8, "export PYTHONIOENCODING=utf8", "export LANGUAGE=en_US:en")
_GENERATED_LOCALE = (
    "sed -i '/en_US.UTF-8/s/^# //g' /etc/locale.gen && locale-gen",
    *("export LANG=en_US.UTF-8", "export LANGUAGE=en_US:en", "export LC_ALL=en_US.UTF-8"),
)
_NO_TEST = (".json", ".png", "csv", ".txt", ".md", ".jpg", ".jpeg", ".pkl", ".yml", ".yaml", ".toml")
_DIRECTIVE = re.compile(r"diff --git a/.* b/(.*)")


@dataclass(frozen=True)
class Spec:
    """How some versions of one repository are prepared (in this order) and tested."""

    versions: str
    """Separated by spaces."""
    install: str = _EDITABLE
    test: str = "pytest -rA"
    setup: tuple[str, ...] = ()

    def prelude(self) -> str:
        """The shell lines before the tests, without those of the official script that only print."""
        trust = f"git config --global --add safe.directory {WORKDIR}"
        enter = f"cd {WORKDIR}"
        return "\n".join(("set -uxo pipefail", *_ACTIVATE, enter, *self.setup, trust, enter, *_ACTIVATE, self.install))

    def test_command(self, directives: tuple[str, ...]) -> str:
        """The shell line that runs the tests."""
        return " ".join((self.test, *map(shlex.quote, directives)))


_SPECS: dict[str, tuple[Spec, ...]] = {
    "astropy/astropy": (
        Spec("3.0 3.1 3.2 4.1 4.2 4.3 5.0 5.1 5.2 v5.3", f"{_EDITABLE}[test] --verbose"),
        Spec(
            "0.1 0.2 0.3 0.4 1.1 1.2 1.3",
            f"{_EDITABLE}[test] --verbose",
            "pytest -rA -vv -o console_output_style=classic --tb=no",
        ),
    ),
    "django/django": (
        Spec("1.4 1.5 1.6", "python setup.py install", _DJANGO),
        Spec("1.7 1.8 1.10 1.11 2.0 2.1 2.2", "python setup.py install", _DJANGO, _OLD_LOCALE),
        Spec("1.9", "python setup.py install", "./tests/runtests.py --verbosity 2", _OLD_LOCALE),
        Spec("3.0 3.1 3.2", _EDITABLE, _DJANGO, _GENERATED_LOCALE),
        Spec("4.0 4.1 4.2 5.0 5.1 5.2", _EDITABLE, _DJANGO),
    ),
    "matplotlib/matplotlib": (
        Spec("3.0 3.1 3.2 3.3 3.4 3.5 3.6 3.7"),
        Spec("3.8 3.9", 'python -m pip install --no-build-isolation -e ".[dev]"'),
        Spec("1.0 1.1 1.2 1.3 1.4 1.5 2.0 2.1 2.2", "python setup.py build; python setup.py install"),
    ),
    "mwaskom/seaborn": (
        Spec("0.11", test="pytest --no-header -rA"),
        Spec("0.12 0.13 0.14", f"{_EDITABLE}[dev]", "pytest --no-header -rA"),
    ),
    "pallets/flask": (Spec("2.0 2.1 2.2 2.3 3.0 3.1"),),
    "psf/requests": (
        Spec(
            "0.7 0.8 0.9 0.11 0.13 0.14 1.1 1.2 2.0 2.2 2.3 2.4 2.5 2.7 2.8 2.9 2.10 2.11 2.12 2.17 2.18 2.19 2.22 2.25"
            " 2.26 2.27 2.31 3.0",
            "python -m pip install .",
        ),
    ),
    "pydata/xarray": (Spec("0.12 0.18 0.19 0.20 2022.03 2022.06 2022.09 2023.07 2024.05"),),
    "pylint-dev/pylint": (Spec("2.8 2.9 2.10 2.11 2.13 2.14 2.15 2.16 2.17 3.0 3.1 3.2 3.3 4.0"),),
    "pytest-dev/pytest": (Spec("4.4 4.5 4.6 5.0 5.1 5.2 5.3 5.4 6.0 6.2 6.3 7.0 7.1 7.2 7.4 8.0 8.1 8.2 8.3 8.4"),),
    "scikit-learn/scikit-learn": (
        Spec("0.20 0.21 0.22 1.3 1.4 1.5 1.6", "python -m pip install -v --no-use-pep517 --no-build-isolation -e ."),
    ),
    "sphinx-doc/sphinx": (
        Spec(
            "1.5 1.6 1.7 1.8 2.0 2.1 2.2 2.3 2.4 3.0 3.1 3.2 3.3 3.4 3.5 4.0 4.1 4.2 4.3 4.4 4.5 5.0 5.1 5.2 5.3 6.0"
            " 6.2 7.0 7.1 7.2 7.3 7.4 8.0 8.1",
            f"{_EDITABLE}[test]",
            "tox --current-env -epy39 -v --",
        ),
    ),
    "sympy/sympy": (
        Spec(
            "0.7 1.0 1.1 1.2 1.4 1.5 1.6 1.7 1.8 1.9 1.10 1.11 1.12 1.13 1.14",
            test="PYTHONWARNINGS='ignore::UserWarning,ignore::SyntaxWarning' bin/test -C --verbose",
        ),
    ),
}


def known_repositories() -> tuple[str, ...]:
    """The twelve repositories of the table."""
    return tuple(_SPECS)


def known_versions(repo: str) -> tuple[str, ...]:
    """The versions of ``repo`` that the table covers; none where it does not cover ``repo``."""
    return tuple(chain.from_iterable(spec.versions.split() for spec in _SPECS.get(repo, ())))


def find_spec(repo: str, version: str) -> Spec | None:
    """How that version of ``repo`` is tested, or None where the table does not say."""
    return next((spec for spec in _SPECS.get(repo, ()) if version in spec.versions.split()), None)


def directives(repo: str, test_patch: str) -> tuple[str, ...]:
    """What the test command is to run: the official rule, by the file names of the test patch (text alone is read).

    Deleted files are named too, and renamed ones by their new name; data files are not. Django's runner wants modules.
    """
    names = [name for name in _DIRECTIVE.findall(test_patch) if not name.endswith(_NO_TEST)]
    return tuple(map(_module, names) if repo == "django/django" else names)


def _module(path: str) -> str:
    return path.removesuffix(".py").removeprefix("tests/").replace("/", ".")
