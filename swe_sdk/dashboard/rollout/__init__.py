"""The parts of the page of one rollout."""
