"""For tests of providers and of what stands on them: a provider that fails on demand, and the conformance suites.

* :class:`~swe_sdk.testing.fake.FakeProvider`: a provider in memory, or around a real one, with faults and counters.
* :mod:`~swe_sdk.testing.provider_suite`: what every sandbox provider must do, as tests or as a report.
"""

from __future__ import annotations

from swe_sdk.testing.fake import FakeProvider
from swe_sdk.testing.faults import Fault
from swe_sdk.testing.provider_suite import ProviderSettings, ProviderSuite, run_provider_suite

__all__ = ["FakeProvider", "Fault", "ProviderSettings", "ProviderSuite", "run_provider_suite"]
