"""Hundreds of posts to a server at once, clients killed in the middle of them, and the engine restarted under it."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.server.serving import ServerProcess, answer_patch, post_body

RIGHT = 42
CLIENTS = 10
_KILLED_EACH = 4
"""One client of so many is killed."""
_ENDS_WITHIN_S = 900.0


@dataclass
class PostsReport:
    """What came of it. ``problems`` is empty if everything held."""

    posts: int
    patches: int
    killed_clients: int = 0
    gone: int = 0
    answered: int = 0
    seconds: float = 0.0
    statuses: Counter[str] = field(default_factory=Counter)
    begun: int = 0
    finished: int = 0
    peak_mib: float = 0.0
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        statuses = ", ".join(f"{count} {status}" for status, count in sorted(self.statuses.items()))
        return (
            f"{self.posts} posts over {self.patches} patches by {CLIENTS} clients, {self.killed_clients} of them "
            f"killed with {self.gone} posts open: {self.answered} answers in {self.seconds:.1f} s ({statuses}), "
            f"{self.begun} evaluations begun, {self.finished} gave a verdict, server at {self.peak_mib:.0f} MiB"
        )


def storm(
    server: ServerProcess, folder: Path, instance_id: str, posts: int, seed: int, restart: Callable[[], None] | None
) -> PostsReport:
    """Post all at once; kill some clients, and restart the engine, when some of the verdicts are there; look around."""
    chance, patches = random.Random(seed), max(8, posts // 10)
    report = PostsReport(posts, patches)
    numbers = [RIGHT - number for number in range(patches)]
    bodies = [_body(instance_id, numbers[post % patches]) for post in range(posts)]
    chance.shuffle(bodies)
    clients = [_client(server, folder, number, bodies[number::CLIENTS]) for number in range(CLIENTS)]
    started = _all_at_once(clients)
    _until_finished(folder, patches // 4)
    victims = chance.sample(clients, max(1, CLIENTS // _KILLED_EACH))
    for victim in victims:
        time.sleep(chance.uniform(0, 0.5))
        report.killed_clients += victim.poll() is None
        victim.kill()
    if restart is not None:
        restart()
    for client in clients:
        code = client.wait(_ENDS_WITHIN_S)
        if code != 0 and client not in victims:
            report.problems.append(f"a client ended with {code}")
    report.seconds = time.monotonic() - started
    _read_answers(report, folder, complete=posts - sum(len(bodies[clients.index(v) :: CLIENTS]) for v in victims))
    _count_evaluations(report, folder)
    report.gone = int(server.metric('swe_sdk_responses_total{path="/verify",status="499"}'))
    report.peak_mib = server.peak_mib()
    return report


def _body(instance_id: str, number: int) -> Any:
    return post_body({"instance_id": instance_id}, answer_patch(number), number=number)


def _client(server: ServerProcess, folder: Path, number: int, bodies: list[Any]) -> subprocess.Popen[bytes]:
    posts = folder / f"posts-{number}.json"
    posts.write_text(json.dumps(bodies))
    program = [sys.executable, "-m", "tests.chaos.posting", server.url, str(posts), str(folder / f"answers-{number}")]
    return subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def _all_at_once(clients: list[subprocess.Popen[bytes]]) -> float:
    """Let them go when all are ready; returns when that was."""
    for client in clients:
        assert client.stdout is not None
        with client.stdout as stdout:
            assert stdout.readline() == b"ready\n"
    for client in clients:
        assert client.stdin is not None
        client.stdin.close()
    return time.monotonic()


def _until_finished(folder: Path, count: int) -> None:
    deadline = time.monotonic() + _ENDS_WITHIN_S
    while len(_verdicts(folder)) < count and time.monotonic() < deadline:
        time.sleep(0.05)


def _verdicts(folder: Path) -> list[Path]:
    return list(folder.glob("results/artifacts/*/*/outcome.json"))


def _read_answers(report: PostsReport, folder: Path, complete: int) -> None:
    for file in folder.glob("answers-*"):
        for line in file.read_bytes().split(b"\n")[:-1]:
            told = json.loads(line)
            report.answered += 1
            report.problems += _wrong(told)
            report.statuses[told["answer"].get("status", str(told["code"]))] += 1
    if report.answered < complete:
        report.problems.append(f"{report.answered} answers of at least {complete}")


def _wrong(told: dict[str, Any]) -> list[str]:
    """Right, or masked: nothing else."""
    answer = told["answer"]
    if told["code"] != 200:
        return [f"an answer of {told['code']}: {answer}"]
    expected = "resolved" if told["patch"] == RIGHT else "unresolved"
    if answer["status"] not in (expected, "masked"):
        return [f"patch {told['patch']} was {answer['status']}: {answer['reason']}"]
    if answer["mask_sample"] is not (answer["status"] == "masked") or answer["reward"] != float(answer["resolved"]):
        return [f"an answer that contradicts itself: {answer}"]
    return []


def _count_evaluations(report: PostsReport, folder: Path) -> None:
    report.begun = len(list(folder.glob("results/artifacts/*/*")))
    outcomes = [json.loads(path.read_text()) for path in _verdicts(folder)]
    by_key = Counter(outcome["key"] for outcome in outcomes if outcome["status"] != "masked")
    report.finished = by_key.total()
    report.problems += [f"{count} evaluations of one patch" for count in by_key.values() if count > 1]


def signal_and_start(engine: Any) -> Callable[[], None]:
    """A restart of an engine as its service manager does it, which ends its containers."""

    def restart() -> None:
        engine.signal(signal.SIGTERM)
        engine.start()

    return restart
