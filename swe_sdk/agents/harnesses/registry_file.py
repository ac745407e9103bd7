"""Fetching a package from an npm registry without npm: from where npm's own settings say."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from pathlib import Path

from swe_sdk.errors import HarnessUnavailable

_DEFAULT = "https://registry.npmjs.org/"
_TIMEOUT_S = 60.0
_REMEDY = (
    "install npm (Debian, Ubuntu: apt-get install npm), or name a registry that can be reached: npm_config_registry"
)


def fetch_from_registry(harness: str, package: str, version: str, target: Path) -> None:
    """The tarball of a package. ``HarnessUnavailable`` where the registry cannot be reached or has none."""
    import httpx

    url = f"{registry_url().rstrip('/')}/{package}/-/{package.rpartition('/')[2]}-{version}.tgz"
    try:
        with (
            httpx.Client(follow_redirects=True, timeout=_TIMEOUT_S, verify=_certificates()) as client,
            client.stream("GET", url) as reply,
            target.open("wb") as file,
        ):
            reply.raise_for_status()
            for block in reply.iter_bytes():
                file.write(block)
    except httpx.HTTPError as error:
        raise HarnessUnavailable(
            harness, f"{package} {version} could not be fetched: {error}", remedy=_REMEDY
        ) from error


def registry_url(environ: Mapping[str, str] | None = None) -> str:
    """The variable ``npm_config_registry``, else what the user's ``.npmrc`` says, else the public registry."""
    source = os.environ if environ is None else environ
    named = next((value for name, value in source.items() if name.lower() == "npm_config_registry" and value), "")
    return named or _from_file(Path(source.get("NPM_CONFIG_USERCONFIG") or Path(source.get("HOME") or "/") / ".npmrc"))


def _from_file(path: Path) -> str:
    try:
        lines = path.read_text("utf-8", "replace").splitlines()
    except OSError:
        return _DEFAULT
    settings = (line.partition("=") for line in lines if not line.lstrip().startswith(("#", ";")))
    found = [value.strip().strip("\"'") for name, _, value in settings if name.strip() == "registry"]
    return found[-1] if found else _DEFAULT


def _certificates() -> ssl.SSLContext:
    context = ssl.create_default_context()  # which heeds SSL_CERT_FILE
    more = os.environ.get("NODE_EXTRA_CA_CERTS")
    if more and os.path.isfile(more):
        context.load_verify_locations(more)
    return context
