"""How long a grade may take, how much it may write, and how often it may be tried."""

from __future__ import annotations

from typing import Any

from pydantic import Field, ValidationError, model_validator

from swe_sdk.errors import InputError
from swe_sdk.model.record import Record

DEFAULT_DISK_MIB = 16 << 10
"""Far more than any known task writes, and far less than the disk of a machine that grades."""
_SET_UP_SHARE = 0.9
"""The part of an attempt's spare time that everything before the tests may use; the rest is for the teardown."""


class GradeSettings(Record):
    """Bounds of one grade. Make it with :meth:`of`."""

    tests_timeout_s: float = Field(default=1800.0, gt=0)
    """For the tests alone. Running out of it is the submission's doing."""
    attempt_timeout_s: float = Field(default=2400.0, gt=0)
    """For a whole attempt, from the creation of its sandbox to the end of the tests."""
    build_timeout_s: float = Field(default=1800.0, gt=0)
    """For building the environment, where it is not there yet."""
    retries: int = Field(default=1, ge=0, le=10)
    """Further attempts, each in a fresh sandbox, after a mask that is worth a retry."""

    disk_mib: int | None = Field(default=DEFAULT_DISK_MIB, gt=0)
    """All files that patch, preparation and tests may write; going beyond is the submission's doing. None: no limit.

    Kept where the provider says so (``swe-sdk doctor``).
    """

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
    def bounds(self) -> dict[str, float | None]:
        """What can change a verdict, for the content key: two times in seconds, and the limit of the disk in MiB."""
        return {"tests": self.tests_timeout_s, "attempt": self.attempt_timeout_s, "disk_mib": self.disk_mib}
