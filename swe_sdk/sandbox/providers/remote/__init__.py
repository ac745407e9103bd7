"""Boxes of a system that is reached over a network: what all such systems have in common."""
