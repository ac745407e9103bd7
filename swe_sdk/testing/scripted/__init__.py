"""A model that plays a script, behind the interfaces that agents call: :mod:`swe_sdk.testing.scripted_model`."""
