"""How this machine reaches its package index, for use in a build box: variables and certificate files.

A build box shares the host's network. It is told what pip and others need to reach their index (which may include the
index's own password, where the user put one into these settings) and nothing else of the user's. No other box is.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from configparser import ConfigParser, Error
from pathlib import Path

from swe_sdk.sandbox.contract import Mount

_PREFIXES = ("UV_INDEX", "UV_DEFAULT_INDEX", "npm_config_registry")
_NAMES = frozenset({"http_proxy", "https_proxy", "no_proxy", "all_proxy"})
_PIP = frozenset(
    f"PIP_{name}"
    for name in (
        "DEFAULT_TIMEOUT",
        "EXTRA_INDEX_URL",
        "FIND_LINKS",
        "INDEX_URL",
        "NO_INDEX",
        "PROXY",
        "RETRIES",
        "TIMEOUT",
        "TRUSTED_HOST",
    )
)
"""Settings of pip that are about the way to its index. What is installed, and where, the environment alone says."""
_CERTIFICATES = (
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO",
    "PIP_CERT",
)  # fmt: skip
_VISIBLE = ("/usr/", "/etc/ssl/certs")


def index_settings(
    environ: Mapping[str, str] | None = None, *, of_machine: bool = True
) -> tuple[dict[str, str], tuple[Mount, ...]]:
    """Variables for a build box, and the certificate files that they name and that it would not see otherwise.

    ``of_machine``: whether the box has this machine's /usr and public certificates, and not those of an image.
    """
    source = os.environ if environ is None else environ
    given = {name: value for name, value in source.items() if value}  # pip takes an empty variable for none
    env = {name: value for name, value in {**_pip_files(source), **given}.items() if _is_wanted(name)}
    files = {env[name] for name in _CERTIFICATES if name in env}
    mounts = [Mount(source=os.path.realpath(f), target=f) for f in sorted(files) if _must_be_mounted(f, of_machine)]
    return env, tuple(mounts)


def _is_wanted(name: str) -> bool:
    return name.startswith(_PREFIXES) or name.lower() in _NAMES or name in _PIP or name in _CERTIFICATES


def _must_be_mounted(path: str, of_machine: bool) -> bool:
    return os.path.isabs(path) and os.path.exists(path) and not (of_machine and path.startswith(_VISIBLE))


def _pip_files(environ: Mapping[str, str]) -> dict[str, str]:
    """The [global] and [install] tables of pip's configuration files, as the variables that mean the same."""
    settings: dict[str, str] = {}
    for path in _pip_paths(environ):
        parser = ConfigParser(interpolation=None)
        try:
            parser.read(path, encoding="utf-8")
        except (Error, UnicodeDecodeError):
            continue  # pip itself will complain about it
        for section in ("global", "install"):
            if parser.has_section(section):
                settings |= {f"PIP_{key.upper().replace('-', '_')}": value for key, value in parser.items(section)}
    return settings


def _pip_paths(environ: Mapping[str, str]) -> list[Path]:
    """From the weakest to the strongest, as pip documents them: a file that is named replaces the user's own."""
    named = environ.get("PIP_CONFIG_FILE")
    if named == os.devnull:
        return []
    home = Path(environ.get("HOME") or "/")
    config = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    site = [Path(base) / "pip" / "pip.conf" for base in environ.get("XDG_CONFIG_DIRS", "/etc/xdg").split(":") if base]
    user = [home / ".pip" / "pip.conf", config / "pip" / "pip.conf"]
    return [*site, Path("/etc/pip.conf"), *([Path(named)] if named and os.path.exists(named) else user)]
