"""How uv reaches the package index that pip is told of."""

from __future__ import annotations

import os
from collections.abc import Mapping

from swe_sdk.sandbox.index_settings import index_settings

_AS_UV = {
    "PIP_EXTRA_INDEX_URL": "UV_INDEX",
    "PIP_FIND_LINKS": "UV_FIND_LINKS",
    "PIP_INDEX_URL": "UV_DEFAULT_INDEX",
    "PIP_TRUSTED_HOST": "UV_INSECURE_HOST",
    "PIP_CERT": "SSL_CERT_FILE",
}
"""uv reads none of pip's settings; those about the way to the index mean the same for both."""


def uv_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables for uv: this process's own, and pip's where uv's own say nothing."""
    source = dict(os.environ if environ is None else environ)
    pip, _mounts = index_settings(source)
    translated = {uv: pip[name] for name, uv in _AS_UV.items() if pip.get(name)}
    if "UV_INDEX" in translated:
        translated["UV_INDEX_STRATEGY"] = (
            "unsafe-best-match"  # to pip all indexes are one, and versions are pinned here
        )
    return {**translated, **{name: value for name, value in source.items() if value or name not in translated}}
