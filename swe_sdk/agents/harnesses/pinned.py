"""The harnesses that we have adapters of, at the versions that the adapters were tried with."""

from __future__ import annotations

from collections.abc import Mapping

from swe_sdk.agents.harnesses.maker import Maker
from swe_sdk.agents.harnesses.npm_program import NpmFile, NpmProgram
from swe_sdk.agents.harnesses.python_packages import PythonPackages

_OPENCODE = "1.18.33"

HARNESSES: Mapping[str, Maker] = {
    "codex": NpmProgram(
        name="codex",
        version="0.171.0",
        files={
            "x86_64": NpmFile(
                package="@openai/codex",
                suffix="-linux-x64",
                sha512="l66NZkQgdk2C3pbcfULDz42yEUB581MVA6I+Y43Wp4OIqEy73HCdmZ0GTjeAHY2ycuH4N00d9VsLrwT1jxshTw==",
                program="package/vendor/x86_64-unknown-linux-musl/bin/codex",
            ),
        },
    ),
    "mini-swe-agent": PythonPackages(
        name="mini-swe-agent",
        version="2.4.6",
        python=">=3.10",
        imports=("minisweagent.agents.default", "minisweagent.models.utils.actions_toolcall", "yaml"),
    ),
    "opencode": NpmProgram(
        name="opencode",
        version=_OPENCODE,
        files={
            # the build without AVX2, which runs on every machine
            "x86_64": NpmFile(
                package="opencode-linux-x64-baseline",
                sha512="1KQGBiiDDeL/VHHbHkOvvFo8Jr97WT5+C1tear+p7IcDTnXgVHXqIjU4O4jM4mHQzykTP2i884FCnW5LDa+zCA==",
                program="package/bin/opencode",
            ),
        },
    ),
    "openhands": PythonPackages(
        name="openhands",
        version="1.58.2",
        python=">=3.12,<3.14",
        imports=("openhands.sdk", "openhands.tools.file_editor", "openhands.tools.terminal", "litellm"),
        is_carried=True,
        env={"OPENHANDS_SUPPRESS_BANNER": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True", "OTEL_SDK_DISABLED": "true"},
    ),
}
