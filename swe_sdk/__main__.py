"""``python -m swe_sdk``."""

from __future__ import annotations

import sys

from swe_sdk.cli import main

if __name__ == "__main__":
    sys.exit(main())
