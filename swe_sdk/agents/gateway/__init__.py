"""The model gateway: what agents call instead of the user's endpoint. See :mod:`swe_sdk.agents.gateway.gateway`."""
