"""Rollouts: an agent works in a lent sandbox, its patch is graded in another, and everything is written down.

* :func:`swe_sdk.rollouts.engine.run_rollout`: one rollout, with its attempts;
* :func:`swe_sdk.rollouts.many.run_many`: many at a time;
* :mod:`swe_sdk.rollouts.settings`, :mod:`~swe_sdk.rollouts.result`: what goes in and what comes out;
* :mod:`swe_sdk.rollouts.ports`: what the engine needs of others: a verifier, a model, a journal;
* :mod:`swe_sdk.rollouts.live`: a rollout while it runs, to be watched, parked and continued.
"""
