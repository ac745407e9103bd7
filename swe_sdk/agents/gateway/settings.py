"""Settings of the gateway, and how much of the model an attempt may use."""

from __future__ import annotations

from pydantic import Field

from swe_sdk.model.record import Record


class GatewaySettings(Record):
    """How the gateway listens, how long it waits, and its limits."""

    host: str = "127.0.0.1"
    """The address to listen on, for boxes that share this machine's network and for agents in this process."""
    port: int = Field(default=0, ge=0, lt=1 << 16)
    """0 = any free one."""
    max_calls: int = Field(default=256, gt=0)
    """Calls at the endpoint at the same time; more wait for their turn."""
    calls_per_rollout: int = Field(default=8, gt=0)
    """The same for each attempt: no box takes the turns, or the memory, of all others."""
    connections_per_rollout: int = Field(default=32, gt=0)
    """Open connections out of one box; more are closed at once: each is a descriptor of this process."""
    connections: int | None = Field(default=None, gt=0)
    """Open connections to the gateway's own port, which boxes on this machine's network share with agents in this
    process; None = half of the descriptors that this process may have."""
    request_bytes: int = Field(default=32 << 20, gt=0)
    """A larger request is refused (413)."""
    response_bytes: int = Field(default=1 << 30, gt=0)
    """A larger response is cut off."""
    recorded_bytes: int = Field(default=4 << 30, gt=0)
    """Bodies of an attempt in the ledger, all together; what comes beyond is counted and dropped."""
    connect_timeout_s: float = Field(default=10.0, gt=0)
    connect_tries: int = Field(default=8, gt=0)
    """How often a request is tried while no connection can be made. One that may have arrived is never sent again."""
    connect_pause_s: float = Field(default=0.2, ge=0)
    """Before the second try; each further pause is twice as long. Half a minute in all, by default."""
    silence_timeout_s: float = Field(default=1800.0, gt=0)
    """How long the endpoint may be silent: before the first byte of a response, and between its pieces."""
    check_timeout_s: float = Field(default=10.0, gt=0)
    """For the endpoint to answer the question for its models, before the first agent starts."""
    check_every_s: float = Field(default=30.0, ge=0)
    """How long the answer to that question is believed."""


class ModelAllowance(Record):
    """What one attempt may use of the model; None = no limit. Calls beyond it are refused in a way that ends harnesses.

    Counted when a response has been delivered, so that a call that was dropped and comes again counts once.
    """

    calls: int | None = Field(default=None, ge=0)
    tokens: int | None = Field(default=None, ge=0)
    """Of prompts and completions together, as far as the endpoint tells them."""


class ModelUsage(Record):
    """What an attempt has used of the model: delivered calls, and the tokens that the endpoint told of."""

    calls: int = Field(default=0, ge=0)
    prompt_tokens: int = Field(default=0, ge=0)
    completion_tokens: int = Field(default=0, ge=0)

    @property
    def tokens(self) -> int:
        """Of prompts and completions together."""
        return self.prompt_tokens + self.completion_tokens

    def plus(self, prompt_tokens: int | None, completion_tokens: int | None) -> ModelUsage:
        """The usage after one more call."""
        return ModelUsage(
            calls=self.calls + 1,
            prompt_tokens=self.prompt_tokens + (prompt_tokens or 0),
            completion_tokens=self.completion_tokens + (completion_tokens or 0),
        )

    def is_within(self, allowance: ModelAllowance, under_way: int = 0) -> bool:
        """Whether another call may be made while ``under_way`` others are not delivered yet."""
        calls_left = allowance.calls is None or self.calls + under_way < allowance.calls
        return calls_left and (allowance.tokens is None or self.tokens < allowance.tokens)
