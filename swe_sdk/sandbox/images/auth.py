"""Who we are to a registry: nobody, or whom ``docker login`` has noted; for a token or directly."""

from __future__ import annotations

import base64
import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import requests

from swe_sdk.errors import ImageNotFound, PullFailed
from swe_sdk.sandbox.images.reference import DOCKER_HUB
from swe_sdk.sandbox.images.settings import RegistrySettings

_HUB_KEY = "https://index.docker.io/v1/"
_PARAMETER = re.compile(r'([A-Za-z_]+)\s*=\s*(?:"([^"]*)"|([^",\s]+))')
_TOKEN_BYTES = 1 << 20


@dataclass(frozen=True)
class Credentials:
    """A name with a password, or with a token that buys other tokens."""

    username: str
    password: str = field(repr=False)
    identity_token: str | None = field(default=None, repr=False)

    @property
    def basic(self) -> str:
        """The value of an ``Authorization`` header."""
        return f"Basic {base64.b64encode(f'{self.username}:{self.password}'.encode()).decode()}"


def find_credentials(registry: str) -> Credentials | None:
    """What ``docker login`` wrote into ``$DOCKER_CONFIG/config.json`` (default ``~/.docker``); None where nothing.

    Passwords in a keychain (``credsStore``, ``credHelpers``) are not looked up.
    """
    directory = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker")
    try:
        auths = json.loads((directory / "config.json").read_bytes())["auths"]
        keys = [_HUB_KEY, DOCKER_HUB] if registry == DOCKER_HUB else [registry, f"https://{registry}"]
        entry = next(auths[key] for key in keys if key in auths)
        name, colon, password = base64.b64decode(entry.get("auth") or "").decode().partition(":")
    except (OSError, ValueError, LookupError, TypeError, AttributeError, StopIteration):
        return None
    token = entry.get("identitytoken") or None
    return Credentials(name, password.rstrip("\0"), token) if colon or token else None


@dataclass(frozen=True)
class Challenge:
    """What a registry wants to be shown, as its ``WWW-Authenticate`` header says."""

    scheme: str
    parameters: dict[str, str]

    @classmethod
    def parse(cls, header: str) -> Challenge:
        """``Bearer realm="...",service="...",scope="..."`` or ``Basic realm="..."``."""
        scheme, _, rest = header.strip().partition(" ")
        found = {name.lower(): quoted or plain for name, quoted, plain in _PARAMETER.findall(rest)}
        return cls(scheme.lower(), found)


def authorize(challenge: Challenge, registry: str, repository: str, settings: RegistrySettings) -> str:
    """The value of an ``Authorization`` header that answers a challenge.

    Raises ``ImageNotFound``, ``PullFailed``, and what ``requests`` raises.
    """
    credentials = find_credentials(registry)
    if challenge.scheme == "basic" and credentials is not None:
        return credentials.basic
    if challenge.scheme == "bearer" and "realm" in challenge.parameters:
        return f"Bearer {_token(challenge, credentials, repository, settings)}"
    raise refused(registry, repository)


def refused(registry: str, repository: str) -> ImageNotFound:
    """Nobody may pull it, or not everybody."""
    return ImageNotFound(
        f"the registry {registry} does not let us pull {repository}",
        remedy=f"is the name right? If it is private: `docker login {registry}`, with the password in its config file",
    )


def _token(challenge: Challenge, credentials: Credentials | None, repository: str, settings: RegistrySettings) -> str:
    realm = challenge.parameters["realm"]
    service = challenge.parameters.get("service", "")
    scope = challenge.parameters.get("scope") or f"repository:{repository}:pull"
    timeout = (settings.connect_timeout_s, settings.read_timeout_s)
    if credentials is not None:
        _require_private(realm, settings)
    if credentials is not None and credentials.identity_token:
        form = {
            "grant_type": "refresh_token", "refresh_token": credentials.identity_token,
            "service": service, "scope": scope, "client_id": "swe_sdk",
        }  # fmt: skip
        response = requests.post(realm, data=form, timeout=timeout)
    else:
        basic = None if credentials is None else (credentials.username, credentials.password)
        query = {"service": service, "scope": scope}
        response = requests.get(realm, params=query, auth=basic, timeout=timeout)
    if response.status_code in (400, 401, 403, 404):
        raise refused(urlsplit(realm).netloc, repository)
    response.raise_for_status()
    return _read_token(response, realm)


def _require_private(realm: str, settings: RegistrySettings) -> None:
    """A password is told to nobody who listens on the way."""
    parts = urlsplit(realm)
    if parts.scheme != "https" and settings.scheme(parts.netloc) != "http":
        raise PullFailed(f"the registry wants a password sent to {realm}, without TLS")


def _read_token(response: requests.Response, realm: str) -> str:
    try:
        answer = json.loads(response.content[:_TOKEN_BYTES])
        return str(answer.get("token") or answer["access_token"])
    except (ValueError, LookupError, AttributeError):
        raise PullFailed(f"{realm} gave no token") from None
