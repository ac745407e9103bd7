"""A policy as plain data."""

from __future__ import annotations

from swe_sdk.model.policy import Decision, Policy, get_policy
from swe_sdk.model.record import Record


class PolicyLine(Record):
    """One line of a policy that has no name."""

    stage: str
    kind: str
    decision: Decision


class PolicyRef(Record):
    """By name, or with all of its lines where it is one of the caller's own."""

    name: str
    lines: tuple[PolicyLine, ...] = ()

    def policy(self) -> Policy:
        """The policy."""
        if not self.lines:
            return get_policy(self.name)
        return Policy({(line.stage, line.kind): line.decision for line in self.lines}, name=self.name)


def policy_ref(policy: Policy | str) -> PolicyRef:
    """The reference to a policy. Raises ``InputError`` for a name that there is not."""
    if isinstance(policy, str):
        return PolicyRef(name=get_policy(policy).name)
    lines = policy.decisions.items()
    listed = tuple(PolicyLine(stage=stage, kind=kind, decision=decision) for (stage, kind), decision in lines)
    return PolicyRef(name=policy.name, lines=listed)
