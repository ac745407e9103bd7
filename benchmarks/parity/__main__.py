"""Compare, and print what was found: ``python -m benchmarks.parity --help``."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import anyio

from benchmarks.parity.compare import compare
from benchmarks.report import Conditions, put_into
from benchmarks.rows import Unavailable
from benchmarks.state import default_state, temporary_folder
from swe_sdk.errors import SweError

PROVIDERS = ("docker", "local", "apptainer")


def main(arguments: Sequence[str] | None = None) -> int:
    """0 where all graders agree, 1 where they do not, 3 where nothing could be compared; times decide nothing."""
    options = _options(arguments)
    before, start = os.getloadavg()[0], time.monotonic()
    try:
        with temporary_folder(options.state or default_state()) as folder:
            found = anyio.run(compare, options, folder)
    except (Unavailable, SweError) as error:
        print(f"nothing was compared: {error}", file=sys.stderr)
        return 3
    found.load, found.seconds = (before, os.getloadavg()[0]), time.monotonic() - start
    sentence = Conditions.here(options.state or default_state(), "standard").sentence
    text = f"{sentence}\n\n{found.markdown()}"
    print(text)
    if options.markdown is not None:
        put_into(options.markdown, f"{text}\n")
    if options.json is not None:
        options.json.write_text(json.dumps(found.to_json(), indent=1) + "\n", "utf-8")
    return 1 if found.differences else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.parity",
        description="Grade the same patches by the official SWE-bench harness and by the SDK, on the same images.",
    )
    add = parser.add_argument
    add("--tasks", metavar="FILE", help="rows as JSON lines; 'verified': the shared ones (default: 12 quick tasks)")
    add("--ids", nargs="+", default=[], metavar="ID", help="only these instances")
    add("--patches", nargs="+", default=["gold", "wrong", "empty"], choices=("gold", "wrong", "empty"))
    add("--workers", type=int, default=2, metavar="N", help="grades at a time, of each grader (default: 2)")
    add("--pull", action="store_true", help="have published images pulled that are not here")
    add("--providers", nargs="*", default=PROVIDERS, choices=PROVIDERS, help="that also grade on their own builds")
    add("--rounds", type=int, default=1, metavar="N", help="turns with bare API calls (default: 1; 0 = none)")
    add("--base-image", metavar="IMAGE", help="what images are built on (default: Debian 12, made by mmdebstrap)")
    add("--json", type=Path, metavar="OUT", help="write everything there")
    add("--markdown", type=Path, metavar="OUT", help="write the tables there, between its markers if it has them")
    add("--state", type=Path, metavar="DIR", help="where logs and results are kept meanwhile (default: memory)")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
