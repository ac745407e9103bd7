# -*- coding: latin-1 -*-
"""Fold letters to the plain ones under which a name is filed."""

from __future__ import annotations

# Written out rather than computed: these are the letters of our names, and
# what a rule for all of Unicode says about them is not what a directory does.
_LETTERS = str.maketrans(
    {
        "ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss",
        "Ä": "Ae", "Ö": "Oe", "Ü": "Ue",
        "á": "a", "à": "a", "â": "a", "ã": "a",
        "é": "e", "è": "e", "ê": "e", "ë": "e",
        "í": "i", "ì": "i", "î": "i", "ï": "i",
        "ó": "o", "ò": "o", "ô": "o", "õ": "o",
        "ú": "u", "ù": "u", "û": "u",
        "ç": "c", "ñ": "n", "ý": "y", "ÿ": "y",
    }
)


def fold(name: str) -> str:
    """The key of ``name``: small plain letters, single spaces, no points or apostrophes."""
    folded = name.translate(_LETTERS).lower()
    for sign in ".'´`":
        folded = folded.replace(sign, "")
    return " ".join(folded.replace("-", " ").split())
