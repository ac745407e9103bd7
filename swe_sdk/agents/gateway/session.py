"""One attempt's use of the model: its key, what it has used, what went wrong, what is under way."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from pydantic import SecretStr

from swe_sdk.agents.gateway.admission import CallView, Gate, OpenCalls, drop_all
from swe_sdk.agents.gateway.settings import GatewaySettings, ModelAllowance, ModelUsage
from swe_sdk.errors import SweError

_PREFIX = "sk-swe-"


class GatewaySession:
    """Made by :meth:`swe_sdk.agents.gateway.gateway.Gateway.session`; its key is good while that block runs."""

    def __init__(
        self,
        rollout_id: str,
        attempt: int,
        *,
        allowance: ModelAllowance,
        used: ModelUsage,
        settings: GatewaySettings,
        calls: OpenCalls,
    ) -> None:
        self.rollout_id = rollout_id
        self.attempt = attempt
        self.allowance = allowance
        self.key = SecretStr(_PREFIX + secrets.token_urlsafe(32))
        self.usage = used
        """Of the attempt, and of the ones before it whose usage it was started with."""
        self.refused = 0
        """Calls that were refused because its allowance was spent."""
        self.trouble: SweError | None = None
        """The failure of the endpoint that the attempt has not got over: that of its last answered call, if any."""
        self.gate = Gate()
        self.parking = Gate()
        """The agent's own: see :meth:`held_at_call`."""
        self.limiter = anyio.CapacityLimiter(settings.calls_per_rollout)
        self._room_bytes = settings.recorded_bytes
        self._calls = calls
        self._numbers = 0

    @property
    def digest(self) -> bytes:
        """Of its key."""
        return digest_of(self.key.get_secret_value())

    @property
    def calls(self) -> tuple[CallView, ...]:
        """Its calls under way."""
        return tuple(call.view() for call in self._calls.of(self.rollout_id) if call.attempt == self.attempt)

    @property
    def awaiting_model(self) -> bool:
        """Whether it waits for an answer of which it has seen nothing: the place where an episode can be saved."""
        calls = self.calls
        return bool(calls) and not any(call.is_delivered for call in calls)

    @property
    def is_spent(self) -> bool:
        """Whether no further call is allowed."""
        return not self.usage.is_within(self.allowance)

    @asynccontextmanager
    async def held_at_call(self) -> AsyncIterator[None]:
        """Hold its calls until the block is left; the block begins once one waits and none is being delivered.

        Whoever made that call stands still meanwhile, and has seen nothing of its answer.
        """
        self.parking.hold()
        try:
            await self._calls.until(lambda: self.awaiting_model)
            yield
        finally:
            self.parking.release()

    def hold(self) -> None:
        """Hold its calls from now on; see :meth:`swe_sdk.agents.gateway.gateway.Gateway.hold`."""
        self.gate.hold()

    def release(self) -> None:
        """Let them go on, unless the whole gateway is held."""
        self.gate.release()

    def drop(self) -> int:
        """Break off its undelivered calls; how many."""
        return drop_all(call for call in self._calls.of(self.rollout_id) if call.attempt == self.attempt)

    def next_number(self) -> int:
        """The number of the next delivered call."""
        self._numbers += 1
        return self._numbers

    def take_room(self, size_bytes: int) -> bool:
        """Whether so many bytes more may be recorded; from then on they count."""
        fits = size_bytes <= self._room_bytes
        self._room_bytes -= size_bytes if fits else 0
        return fits

    def may_call(self) -> bool:
        """Whether another call is within its allowance."""
        return self.usage.is_within(self.allowance, under_way=len(self.calls))


def digest_of(key: str) -> bytes:
    """What keys are looked up by, so that the time of a look-up tells nothing of them."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
