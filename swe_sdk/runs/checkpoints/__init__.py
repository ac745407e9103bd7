"""Checkpoints of a run: its rollouts are the participants, and a resumed run goes on from the newest complete one.

* :mod:`~swe_sdk.runs.checkpoints.keeper`: what a run does about checkpoints from its begin to its end;
* :mod:`~swe_sdk.runs.checkpoints.census`: what a checkpoint can hold of each rollout;
* :mod:`~swe_sdk.runs.checkpoints.participants`: the rollouts and their sandboxes, as the protocol sees them;
* :mod:`~swe_sdk.runs.checkpoints.view`: checkpoints, looked at;
* :mod:`~swe_sdk.runs.checkpoints.snapshots`: whether the snapshots of runs are those that their checkpoints need.
"""
