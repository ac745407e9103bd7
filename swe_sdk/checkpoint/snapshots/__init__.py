"""Snapshots of sandboxes that belong to checkpoints: taken, restored, counted and released."""
