"""From a patch to a truthful outcome."""
