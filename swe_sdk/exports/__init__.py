"""Rollouts in the forms that others read."""

from swe_sdk.exports.nemo_gym import nemo_gym_row, read_nemo_gym_rows, rollout_record, write_nemo_gym_rows
from swe_sdk.exports.nemo_gym_row import NemoGymRow
from swe_sdk.exports.record import RolloutRecord

__all__ = [
    "NemoGymRow",
    "RolloutRecord",
    "nemo_gym_row",
    "read_nemo_gym_rows",
    "rollout_record",
    "write_nemo_gym_rows",
]
