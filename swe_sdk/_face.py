"""The blocking twins of the functions in ``swe_sdk.aio``."""

from swe_sdk import aio
from swe_sdk._loop import blocking

grade = blocking(aio.grade)
grade_many = blocking(aio.grade_many)
prepare = blocking(aio.prepare)
validate = blocking(aio.validate)
