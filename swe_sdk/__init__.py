"""Sandboxes, truthful grading and long rollouts for software-engineering agents."""
