"""The four kinds of participants, over the pure machine."""
