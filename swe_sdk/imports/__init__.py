"""Runs of other tools as run directories, to be looked at with everything that looks at ours."""
