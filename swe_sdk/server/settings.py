"""How a server is set."""

from __future__ import annotations

from pydantic import ConfigDict, Field, SecretStr, ValidationError, model_validator

from swe_sdk.errors import InputError
from swe_sdk.grading.batch import default_limit
from swe_sdk.model.policy import get_policy
from swe_sdk.model.record import Record
from swe_sdk.server.models import Control


class ServerSettings(Record):
    """Everything a server needs to know; ``workers`` and the sizes bound its memory. Make it with :meth:`of`."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    provider: str = "auto"
    """Of the sandboxes."""
    policy: str = "default"
    """What failures mean: ``default`` or ``nemo_gym``."""
    workers: int = Field(default_factory=default_limit, ge=1)
    """Evaluations at once."""
    queue: int = Field(default=1000, ge=0)
    """Evaluations that may wait for a worker; a post that would need one more is told to come later (429)."""
    posts: int = Field(default=4000, ge=1)
    """Posts being answered at once, those that share an evaluation included; further ones get 429. Never more than half
    of the descriptors that this process may have: the sandboxes need the others."""
    body_mib: float = Field(default=64.0, gt=0)
    """The largest body of a request; larger ones get 413."""
    bodies_mib: float = Field(default=1024.0, gt=0)
    """All bodies of posts being answered; a post that would exceed it gets 429."""
    body_timeout_s: float = Field(default=60.0, gt=0)
    """For a body to arrive; slower ones get 408."""
    tests_timeout_s: float = Field(default=1800.0, gt=0)
    """For the tests of one evaluation, unless the request says otherwise."""
    longest_tests_timeout_s: float = Field(default=7200.0, gt=0)
    """The most that a request may ask for."""
    build_timeout_s: float = Field(default=1800.0, gt=0)
    """For building an environment that is not there yet."""
    request_timeout_s: float = Field(default=14400.0, gt=0)
    """For a whole post, from its last byte to its answer, waiting included. Then the answer is a mask."""
    retries: int = Field(default=1, ge=0, le=10)
    """Further attempts after a mask that is worth it."""
    patience_s: float = Field(default=60.0, ge=0)
    """For how long an evaluation is begun again, with pauses, where the infrastructure fails it: an engine that is
    started anew must not turn all that waits into masks."""
    control: Control = "off"
    """When the gold patch is graded too, unless the request says otherwise."""
    inline_tasks: bool = True
    """Whether a request may bring its task along; else it can only name one that was loaded at the start."""
    local_sources: bool = False
    """Whether such a task may name a directory or a git repository of this machine."""
    results: str | None = None
    """A directory for logs, patches and outcomes; None = they are not kept."""
    token: SecretStr | None = None
    """What every post must show as ``Authorization: Bearer``; None = nothing."""
    reap_every_s: float = Field(default=60.0, gt=0)
    """How often what dead programs have left is removed."""
    drain_s: float = Field(default=600.0, ge=0)
    """How long a server that was told to stop goes on with what it has begun."""
    metrics: bool = True
    """Whether there is ``/metrics``, which takes the extra ``server``."""

    @model_validator(mode="after")
    def _makes_sense(self) -> ServerSettings:
        get_policy(self.policy)
        if self.longest_tests_timeout_s < self.tests_timeout_s:
            raise ValueError("longest_tests_timeout_s must not be less than tests_timeout_s")
        if self.bodies_mib < self.body_mib:
            raise ValueError("bodies_mib must not be less than body_mib: no such body could be read")
        return self

    @classmethod
    def of(cls, **settings: object) -> ServerSettings:
        """Checked settings; ``InputError`` names the one that makes no sense."""
        try:
            return cls.model_validate(settings)
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(str(part) for part in first["loc"])
            raise InputError(f"{field}: {first['msg']}" if field else first["msg"]) from None
