"""How a sandbox is made, in a few facts."""

from __future__ import annotations

from swe_sdk.model.environment import DirectorySource, Environment, GitSource, SdistSource, SourceEnvironment
from swe_sdk.notebook.amounts import many
from swe_sdk.notebook.blocks import Cell, Word


def environment_facts(environment: Environment) -> tuple[tuple[str, Cell], ...]:
    """Image, or sources and build steps. Values of variables are not shown."""
    variables = ", ".join(environment.env)
    if not isinstance(environment, SourceEnvironment):
        return (("image", Word(environment.image, "code")), ("reset to", environment.base), ("variables", variables))
    steps = len(environment.pre_install) + len(environment.install)
    return (
        ("source", Word(_source(environment.source), "code")),
        ("python", environment.python),
        ("requirements", many(len(environment.pip), "pinned package") if environment.pip else None),
        ("build", many(steps, "step") if steps else None),
        ("tools", ", ".join(environment.tools)),
        ("variables", variables),
    )


def _source(source: GitSource | SdistSource | DirectorySource) -> str:
    if isinstance(source, GitSource):
        return f"{source.url} @ {source.commit[:12]}"
    return f"{source.name} {source.version}" if isinstance(source, SdistSource) else source.path
