"""Paragraphs to lines."""


def wrap(text, width):
    """The lines of a paragraph, each at most ``width`` characters long."""
    if width < 1:
        raise ValueError("lines need a width of at least 1")
    lines, line = [], ""
    for word in text.split():
        if not line:
            line = word
        elif len(line) + 1 + len(word) <= width:
            line += " " + word
        else:
            lines.append(line)
            line = word
    return [*lines, line] if line else lines
