"""Harness families: how their tasks run and how their results are read."""
