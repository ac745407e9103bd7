"""Run ``swe-sdk demo`` for real, and draw what it printed: ``python scripts/render_demo.py [OUT.svg]``.

The command runs in a terminal of its own. Only one thing of its output is changed: the home directory becomes ``~``.
"""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

COLUMNS = 120
_ROWS = 50
_TITLE = "swe-sdk demo"
_PROMPT = Text.assemble(("$ ", "dim"), ("swe-sdk demo", "bold"), "\n")
_PICTURE = Path(__file__).resolve().parents[1] / "docs" / "images" / "demo.svg"
_THEME = TerminalTheme(
    (27, 31, 40),
    (205, 211, 222),
    [
        (62, 70, 86), (236, 112, 117), (134, 199, 125), (232, 192, 104),
        (110, 168, 243), (196, 146, 232), (98, 196, 204), (205, 211, 222),
    ],
)  # fmt: skip
_FONTS = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
_WEB_FONT = "@font-face"


def main() -> None:
    """Draw the picture; exits with the demo's own code if it failed."""
    picture = Path(sys.argv[1]) if len(sys.argv) > 1 else _PICTURE
    picture.write_text(draw(run(["swe-sdk", "demo"])), encoding="utf-8")
    print(picture)


def run(command: list[str]) -> str:
    """What ``command`` prints to a terminal of :data:`COLUMNS` columns, colours included."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, COLUMNS, 0, 0))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    environ = {**os.environ, "PATH": path, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
    with tempfile.TemporaryFile() as messages:
        process = subprocess.Popen(command, stdout=theirs, stderr=messages, stdin=subprocess.DEVNULL, env=environ)
        os.close(theirs)
        printed = _read_all(ours)
        if process.wait() != 0:
            messages.seek(0)
            sys.exit(f"{' '.join(command)} exited with {process.returncode}: {messages.read().decode()}")
    return printed.decode().replace("\r\n", "\n").replace(str(Path.home()), "~")


def draw(printed: str) -> str:
    """An SVG of a terminal that holds ``printed``; it asks no server for a font."""
    with open(os.devnull, "w") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere, force_terminal=True, color_system="truecolor")
        console.print(_PROMPT)
        for line in printed.splitlines():
            console.print(Text.from_ansi(line), soft_wrap=True)
        return console.export_svg(title=_TITLE, theme=_THEME, code_format=_code_format(), unique_id="demo")


def _code_format() -> str:
    """Rich's own template, without its web fonts."""
    from rich._export_format import CONSOLE_SVG_FORMAT as template

    while _WEB_FONT in template:
        start = template.index(_WEB_FONT)
        template = template[:start] + template[template.index("}}", start) + 2 :]
    return template.replace("Fira Code, monospace", _FONTS)


def _read_all(terminal: int) -> bytes:
    chunks = []
    with open(terminal, "rb", buffering=0) as reader:
        while True:
            try:
                chunk = reader.read(65536)
            except OSError:  # how Linux says that the other end of a terminal was closed
                break
            if not chunk:
                break
            chunks.append(chunk)
    return b"".join(chunks)


if __name__ == "__main__":
    main()
