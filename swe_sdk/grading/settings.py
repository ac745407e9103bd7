"""How long a grade may take, and how often it may be tried."""

from __future__ import annotations

from typing import Any

from pydantic import Field, ValidationError, model_validator

from swe_sdk.errors import InputError
from swe_sdk.model.record import Record

_SET_UP_SHARE = 0.9
"""The part of an attempt's spare time that everything before the tests may use; the rest is for the teardown."""


class GradeSettings(Record):
    """Deadlines of one grade, in seconds. Make it with :meth:`of`."""

    tests_timeout_s: float = Field(default=1800.0, gt=0)
    """For the tests alone. Running out of it is the submission's doing."""
    attempt_timeout_s: float = Field(default=2400.0, gt=0)
    """For a whole attempt, from the creation of its sandbox to the end of the tests."""
    build_timeout_s: float = Field(default=1800.0, gt=0)
    """For building the environment, where it is not there yet."""
    retries: int = Field(default=1, ge=0, le=10)
    """Further attempts, each in a fresh sandbox, after a mask that is worth a retry."""

    @model_validator(mode="after")
    def _ordered(self) -> GradeSettings:
        if self.attempt_timeout_s <= self.tests_timeout_s:
            raise ValueError("attempt_timeout_s must be larger than tests_timeout_s: the sandbox takes time as well")
        return self

    @classmethod
    def of(cls, *, tests_timeout_s: float, attempt_timeout_s: float | None, **others: Any) -> GradeSettings:
        """Checked settings; ``attempt_timeout_s`` is ten minutes more than the tests get unless given.

        Raises ``InputError``.
        """
        attempt = tests_timeout_s + 600 if attempt_timeout_s is None else attempt_timeout_s
        try:
            return cls(tests_timeout_s=tests_timeout_s, attempt_timeout_s=attempt, **others)
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(str(part) for part in first["loc"])
            raise InputError(f"{field}: {first['msg']}" if field else first["msg"]) from None

    @property
    def set_up_s(self) -> float:
        """For everything before the tests, so that they always get all of their time."""
        return (self.attempt_timeout_s - self.tests_timeout_s) * _SET_UP_SHARE

    @property
    def timeouts_s(self) -> dict[str, float]:
        """What can change a verdict, for the content key."""
        return {"tests": self.tests_timeout_s, "attempt": self.attempt_timeout_s}
