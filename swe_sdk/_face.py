"""The blocking twins of the functions in ``swe_sdk.aio``."""

from swe_sdk import aio
from swe_sdk._loop import blocking

compare = blocking(aio.compare)
doctor = blocking(aio.doctor)
grade = blocking(aio.grade)
grade_many = blocking(aio.grade_many)
open_run = blocking(aio.open_run)
prepare = blocking(aio.prepare)
regrade = blocking(aio.regrade)
resume = blocking(aio.resume)
run = blocking(aio.run)
validate = blocking(aio.validate)
verify = blocking(aio.verify)
