"""Phrases that count things."""


def take(words, counts):
    """``["day", "hour"], [1, 2]`` to ``1 day, 2 hours``."""
    if len(words) != len(counts):
        raise ValueError("as many words as counts are needed")
    parts = [f"{count} {word}{'s' if count > 1 else ''}" for word, count in zip(words, counts) if count]
    return ", ".join(parts)
