"""Counting things."""


class Tally:
    """How often each thing was seen."""

    def __init__(self):
        self._counts = {}

    def add(self, thing, times=1):
        if times < 0:
            raise ValueError("things cannot be seen less than zero times")
        self._counts[thing] = self._counts.get(thing, 0) + times

    def top(self, n):
        """The n most frequent things."""
        pairs = sorted(self._counts.items(), key=lambda pair: (pair[1], str(pair[0])), reverse=True)
        return [thing for thing, _ in pairs[:n]]

    def __getitem__(self, thing):
        return self._counts.get(thing, 0)
