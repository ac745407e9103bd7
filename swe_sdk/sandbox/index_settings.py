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

_PREFIXES = ("PIP_", "UV_INDEX", "UV_DEFAULT_INDEX", "npm_config_registry")
_NAMES = frozenset({"http_proxy", "https_proxy", "no_proxy", "all_proxy"})
_CERTIFICATES = (
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO",
    "PIP_CERT",
)  # fmt: skip
_NOT_OURS = frozenset(
    f"PIP_{name}"
    for name in (
        "BUILD_CONSTRAINT",
        "CONFIG_FILE",
        "CONSTRAINT",
        "PREFIX",
        "REQUIREMENT",
        "REQUIRE_VIRTUALENV",
        "TARGET",
        "USER",
    )
)
"""Settings of pip that are about what is installed, and where: the environment alone says that."""
_VISIBLE = ("/usr/", "/etc/ssl/certs")


def index_settings(environ: Mapping[str, str] | None = None) -> tuple[dict[str, str], tuple[Mount, ...]]:
    """Variables for a build box, and the certificate files that they name and that it would not see otherwise."""
    source = os.environ if environ is None else environ
    env = {**_pip_files(source), **{name: value for name, value in source.items() if _is_wanted(name)}}
    env = {name: value for name, value in env.items() if name not in _NOT_OURS}
    files = {env[name] for name in _CERTIFICATES if name in env}
    mounts = [Mount(source=os.path.realpath(f), target=f) for f in sorted(files) if _must_be_mounted(f)]
    return env, tuple(mounts)


def _is_wanted(name: str) -> bool:
    return name.startswith(_PREFIXES) or name.lower() in _NAMES or name in _CERTIFICATES


def _must_be_mounted(path: str) -> bool:
    return os.path.isabs(path) and os.path.exists(path) and not path.startswith(_VISIBLE)


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
    """From the weakest to the strongest, as pip documents them."""
    home = Path(environ.get("HOME") or "/")
    config = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    site = [Path(base) / "pip" / "pip.conf" for base in environ.get("XDG_CONFIG_DIRS", "/etc/xdg").split(":") if base]
    paths = [*site, Path("/etc/pip.conf"), home / ".pip" / "pip.conf", config / "pip" / "pip.conf"]
    named = environ.get("PIP_CONFIG_FILE")
    return [*paths, Path(named)] if named and named != os.devnull else paths
