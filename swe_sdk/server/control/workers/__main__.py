"""``python -m swe_sdk.server.control.workers package.module:function --kind agent --instance agent --workers 4 ...``"""

from __future__ import annotations

import argparse
import logging
import sys
from functools import partial
from pathlib import Path

import anyio
from pydantic import SecretStr

from swe_sdk.errors import InputError, SweError
from swe_sdk.files import read_token
from swe_sdk.server.control.settings import ControlLimits
from swe_sdk.server.control.workers.serving import WorkersSettings, serve_workers


def main() -> int:
    """Serve until told to stop; 1 or 2 where it could not."""
    arguments = _parser().parse_args()
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        anyio.run(partial(serve_workers, _settings(arguments), on_ready=_say_ready))
    except SweError as error:
        sys.stderr.write(f"{error}\n")
        return 2 if isinstance(error, InputError) else 1
    return 0


def _settings(arguments: argparse.Namespace) -> WorkersSettings:
    root = arguments.checkpoint_root
    return WorkersSettings(
        factory=arguments.factory,
        kind=arguments.kind,
        instance=arguments.instance,
        workers=arguments.workers,
        host=arguments.host,
        port=arguments.port,
        token=SecretStr(read_token(arguments.token_file)),
        limits=ControlLimits(checkpoint_root=None if root is None else root.resolve()),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m swe_sdk.server.control.workers", description=__doc__)
    parser.add_argument("factory", help="package.module:function that makes what each worker serves")
    parser.add_argument("--kind", required=True, choices=["environment", "agent", "model", "resources"])
    parser.add_argument("--instance", required=True, help="its name in checkpoints, the same in every life")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080, help="0 = any free one")
    parser.add_argument("--token-file", type=Path, required=True, help="the bearer token of the control routes")
    parser.add_argument("--checkpoint-root", type=Path, help="below which checkpoints are written and read")
    return parser


def _say_ready(url: str) -> None:
    sys.stdout.write(f"serving at {url}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
