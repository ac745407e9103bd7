"""Sandboxes: the contract, the providers, and environments that are built once and forked for every use."""
