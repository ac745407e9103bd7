"""Boxes of an OpenSandbox server."""
