"""Checkpoints of a run: its rollouts are the participants, and a resumed run goes on from the newest complete one.

* :mod:`~swe_sdk.runs.checkpoints.keeper`: what a run does about checkpoints from its begin to its end;
* :mod:`~swe_sdk.runs.checkpoints.saver`: saving the rollouts of a process, and restoring them in the next;
* :mod:`~swe_sdk.runs.checkpoints.node_keeper`, :mod:`~swe_sdk.runs.checkpoints.driver`: the same on many nodes;
* :mod:`~swe_sdk.runs.checkpoints.holdings`, :mod:`~swe_sdk.runs.checkpoints.restoring`: what any process has saved, and
  going on with it here;
* :mod:`~swe_sdk.runs.checkpoints.series`: who saves, and where its snapshots are listed;
* :mod:`~swe_sdk.runs.checkpoints.copies`: copies of snapshots on shared storage;
* :mod:`~swe_sdk.runs.checkpoints.census`: what a checkpoint can hold of each rollout;
* :mod:`~swe_sdk.runs.checkpoints.participants`: the rollouts and their sandboxes, as the protocol sees them;
* :mod:`~swe_sdk.runs.checkpoints.view`: checkpoints, looked at;
* :mod:`~swe_sdk.runs.checkpoints.snapshots`: whether the snapshots of runs are those that their checkpoints need.
"""
