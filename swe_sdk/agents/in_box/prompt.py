"""What an agent is told to do, where its harness has no words of its own for it."""

from __future__ import annotations

from swe_sdk.agents.contract import AgentTask

ISSUE_PROMPT = """\
The repository in {workdir} has the following issue:

<issue>
{problem_statement}
</issue>

Change the source code of the repository so that the issue is resolved in a way that is general and consistent with the
code around it. Do not change the tests that are there: others, which you do not see, decide whether it is resolved.
There is no network, and nobody answers questions. Leave your changes in the working tree; do not commit them.
"""


def issue_prompt(template: str, task: AgentTask) -> str:
    """``template`` with ``{workdir}``, ``{problem_statement}`` and ``{hints}`` filled in; other braces stay."""
    fields = {"{workdir}": task.workdir, "{hints}": task.hints, "{problem_statement}": task.problem_statement}
    for name, text in fields.items():  # the statement last: names within it are left as they are
        template = template.replace(name, text)
    return template
