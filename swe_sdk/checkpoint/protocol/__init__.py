"""The state machine of a participant: pure, with its rules as a table."""
