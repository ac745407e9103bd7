"""Log parsers in megabytes a second, beside those of the official harness, on the same logs."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version as version_of
from types import SimpleNamespace
from typing import Any

from benchmarks.lab import Lab
from benchmarks.parser_samples import TASKS, sample_log, sample_names
from benchmarks.rows import Row, Target, Unavailable, missing
from benchmarks.shared import shared_datasets
from swe_sdk.recipes.parsers import decode_log, lenient_section, parse_log
from swe_sdk.recipes.parsers.registry import PYTHON

TITLE = "Log parsers"
_PREFIX = "parse_log_"
_PYTHON_TARGET, _TARGET = Target(2, is_least=True), Target(1, is_least=True)
Parse = Callable[[str], dict[str, str]]


@dataclass
class Speed:
    """One parser over all logs of its framework."""

    parse: Parse
    best_s: float = float("inf")

    def measure(self, texts: Sequence[str]) -> float:
        """Parse everything once; the seconds it took."""
        start = time.perf_counter()
        for text in texts:
            self.parse(text)
        elapsed = time.perf_counter() - start
        self.best_s = min(self.best_s, elapsed)
        return elapsed


async def rows(lab: Lab) -> list[Row]:
    """Two rows for each name of the official registry: on recorded logs where there are some, else on typical lines."""
    try:
        official = _official()
        logs = _sections(official, lab.settings.parser_logs)
    except Unavailable as error:
        return [missing("parsers", error)]
    made = {_PREFIX + name: [sample_log(name)] for name in sample_names() if _PREFIX + name not in logs}
    found = _shared_by_twins(logs | made)
    assert set(found) == set(official), f"no log for {sorted(set(official) - set(found))}"
    return [row for name, texts in sorted(found.items()) for row in _rows(name, texts, official[name], lab)]


def _shared_by_twins(logs: dict[str, list[str]]) -> dict[str, list[str]]:
    """Names without a log of their own get that of another name of the same official parser."""
    from swebench.harness.log_parsers import PARSER_REGISTRY

    twins = {parser: name for name, parser in PARSER_REGISTRY.items() if name in logs}
    others = {name: logs[twins[parser]] for name, parser in PARSER_REGISTRY.items() if parser in twins}
    return others | logs


def _rows(name: str, texts: list[str], theirs: Parse, lab: Lab) -> Iterator[Row]:
    instance, version = _task(name)

    def ours(text: str) -> dict[str, str]:
        return parse_log(name, text, instance, version)

    assert all(ours(text) == theirs(text) for text in texts), f"the parsers of {name} disagree"
    first, second = Speed(ours), Speed(theirs)
    spent = 0.0
    while spent < 2 * lab.settings.parser_seconds:
        spent += first.measure(texts) + second.measure(texts)
    megabytes = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts) / 1e6
    short = name.removeprefix(_PREFIX)
    target = _PYTHON_TARGET if short in PYTHON else _TARGET
    official = Row(f"{short}, swebench {version_of('swebench')}", megabytes / second.best_s, "MB/s")
    yield official
    note = f"{len(texts)} log{'s' if len(texts) > 1 else ''}, {megabytes:.2f} MB"
    ratio = second.best_s / first.best_s
    yield Row(f"{short}, ours", megabytes / first.best_s, "MB/s", None, ratio, "official", target, note)


def _official() -> dict[str, Parse]:
    """The parsers of the official harness, by name."""
    try:
        from swebench.harness.log_parsers import PARSER_REGISTRY
    except ImportError:
        raise Unavailable("the official harness is not installed (pip install swebench==5.0.2)") from None
    return {name: _with_spec(name, parse) for name, parse in PARSER_REGISTRY.items()}


def _with_spec(name: str, parse: Callable[[str, Any], dict[str, str]]) -> Parse:
    instance, version = _task(name)
    spec = SimpleNamespace(instance_id=instance, version=version)
    return lambda text: parse(text, spec)


def _task(name: str) -> tuple[str, str]:
    """The instance id and the version that decide what a parser reads, where they do."""
    return TASKS.get(name.removeprefix(_PREFIX), ("a__b-1", "1"))


def _sections(official: dict[str, Parse], most: int | None) -> dict[str, list[str]]:
    """The test sections of the shared logs, by the name of their parser; of each at most so many."""
    folder = shared_datasets() / "logs"
    found: dict[str, list[str]] = defaultdict(list)
    for line in (folder / "index.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        name = row["framework"] if row["framework"] in official else row.get("swebench_parser")
        texts = found[name] if name in official else None
        if texts is not None and (most is None or len(texts) < most):
            texts.append(lenient_section(decode_log((folder / row["file"]).read_bytes())).text)
    return {name: texts for name, texts in found.items() if any(texts)}
