"""For tests of providers and of what stands on them: a provider that fails on demand, and the conformance suites.

* :class:`~swe_sdk.testing.fake.FakeProvider`: a provider in memory, or around a real one, with faults and counters.
* :mod:`~swe_sdk.testing.provider_suite`: what every sandbox provider must do, as tests or as a report.
* :mod:`~swe_sdk.testing.recipe_suite`: what every recipe must do with every row, as tests or as a report.
* :mod:`~swe_sdk.testing.executor_suite`: what every executor must do, as tests or as a report.
* :mod:`~swe_sdk.testing.participant_suite`: what the hooks of checkpoints must do, as tests or as a report.
* :class:`~swe_sdk.testing.scripted_model.ScriptedModel`: a model endpoint that plays a script, for tests of agents.
"""

from __future__ import annotations

from swe_sdk.testing.executor_suite import ExecutorCase, ExecutorSuite, run_executor_suite
from swe_sdk.testing.fake import FakeProvider
from swe_sdk.testing.faults import Fault
from swe_sdk.testing.participant_suite import ParticipantCase, ParticipantSuite, run_participant_suite
from swe_sdk.testing.provider_suite import ProviderSettings, ProviderSuite, run_provider_suite
from swe_sdk.testing.recipe_suite import RecipeSuite, run_recipe_suite
from swe_sdk.testing.scripted_model import ScriptedModel, act, fail, say, use

__all__ = [
    "ExecutorCase",
    "ExecutorSuite",
    "FakeProvider",
    "Fault",
    "ParticipantCase",
    "ParticipantSuite",
    "ProviderSettings",
    "ProviderSuite",
    "RecipeSuite",
    "ScriptedModel",
    "act",
    "fail",
    "run_executor_suite",
    "run_participant_suite",
    "run_provider_suite",
    "run_recipe_suite",
    "say",
    "use",
]
