"""Run a task's prelude and its tests, and catch every byte that they print."""

from __future__ import annotations

import errno
from collections.abc import Mapping

from swe_sdk.errors import NoSpace, SandboxLost
from swe_sdk.grading.box_git import BoxGit
from swe_sdk.grading.run_log import RunLog
from swe_sdk.grading.witness import Witness
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.sandbox.contract import Stream

_TAIL_BYTES = 1 << 16
"""What an ExecResult keeps of the output; all of it goes to the log."""


def frozen_env(env: Mapping[str, str]) -> dict[str, str]:
    """Variables that take chance out of a test run, where the task's own environment ``env`` says nothing else.

    Time zone, locale and hash seed made gold patches fail now and then on machines that differ in them.
    """
    frozen = {"TZ": "UTC", "PYTHONHASHSEED": "0"}
    if not {"LANG", "LC_ALL"} & env.keys():
        frozen |= {"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}
    return {name: value for name, value in frozen.items() if name not in env}


async def run_prelude(git: BoxGit, prelude: str, env: Mapping[str, str], timeout_s: float, log: RunLog) -> ExecResult:
    """Run the prelude, and leave its variables, directory, shell options and functions in a file for the tests.

    Official preludes go on after a line that fails, so its exit code is only recorded. Raises ``SandboxLost``.
    """
    state = f"{git.private}/state.sh"
    await git.write("prelude.sh", prelude.encode("utf-8", "surrogateescape"))
    driver = await git.write("driver.sh", _driver(f"{git.private}/prelude.sh", state).encode())
    return await _run(git, driver, env, timeout_s, log)


async def run_tests(
    git: BoxGit,
    command: str,
    env: Mapping[str, str],
    timeout_s: float,
    log: RunLog,
    witness: Witness | None = None,
    before: str = "",
) -> ExecResult:
    """Run the tests where the prelude left off; all that they print is the log's test section.

    ``before``: shell lines of ours that the same shell runs first.

    Prelude and tests are two commands, so that nothing which the program prints can open or close the section.
    Raises ``SandboxLost``, and ``NoSpace`` where the log could not be kept.
    """
    state = f"{git.private}/state.sh"
    watched = "" if witness is None else witness.shell_lines
    script = f"if [ -f {state} ]; then . {state}; fi >/dev/null 2>&1\n{watched}{before}{command}\n"
    path = await git.write("tests.sh", script.encode("utf-8", "surrogateescape"))
    log.open_section()
    try:
        return await _run(git, path, env, timeout_s, log)
    finally:
        log.close_section()


def _driver(prelude: str, state: str) -> str:
    """A script that keeps the prelude's state even where the prelude ends by ``exit``.

    Not carried over: tracing, and our own variables (one of them marks the processes of *this* command, so that its
    whole tree can be killed). Functions come last: one that the shell cannot read back then costs nothing else.
    """
    return f"""
swe_sdk_keep_state() {{
  {{ export -p | grep -v '^declare -x SWE_SDK_'; printf 'cd -- %q\\n' "$PWD"; set +o | grep -v xtrace; declare -f
  }} >{state} 2>/dev/null
}}
trap swe_sdk_keep_state EXIT
. {prelude}
"""


async def _run(git: BoxGit, script: str, env: Mapping[str, str], timeout_s: float, log: RunLog) -> ExecResult:
    streamed = False

    def keep(_: Stream, data: bytes) -> None:
        nonlocal streamed
        streamed = True
        log.write(data)

    result = await git.box.exec(
        ["bash", script],
        env=env,
        timeout_s=timeout_s,
        output_bytes=_TAIL_BYTES,
        merge_stderr=True,
        on_output=keep,
    )
    if not streamed:  # a provider that cannot stream hands the output over at the end
        log.write(result.stdout_bytes)
    if result.status == "lost":
        raise SandboxLost("the sandbox died while the program ran in it")
    if log.error is not None:
        if log.error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise log.error
        raise NoSpace(f"the log {log.path} could not be written: {log.error.strerror}", remedy="free some disk")
    return result
