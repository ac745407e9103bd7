"""From a preset, a file and the arguments of a call to one configuration.

Layers, each over the one before, key by key (tables are merged, everything else is replaced)::

    the base  <  the preset  <  the agent's own  <  the file  <  the file's [agents.<name>]  <  the call
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from swe_sdk.config.files import read_config_file
from swe_sdk.config.model import SETTINGS, ModelConfig, RunConfig
from swe_sdk.config.presets import AGENTS, BASE, DEFAULT_PRESET, Layer, preset_layer
from swe_sdk.errors import InputError, did_you_mean

ConfigLike = RunConfig | Mapping[str, Any] | Path | str | None
"""A resolved configuration, settings by key, a file of them, or None."""

_FILE_ONLY = ("agents",)


@dataclass(frozen=True)
class Resolved:
    """A configuration, and for each of its keys which layer has said so."""

    config: RunConfig
    origins: Mapping[str, str]


def resolve_config(config: ConfigLike = None, *, preset: str | None = None, **arguments: Any) -> Resolved:
    """The configuration of a run. ``arguments`` that are None are not given.

    ``preset`` may also stand in the file; ``agents.<name>`` there holds what is for one agent only. Raises
    ``InputError`` for unknown keys (with what may have been meant) and for values that make no sense, naming the layer.
    """
    given = {key: value for key, value in arguments.items() if value is not None}
    _check_keys(given, SETTINGS, "argument")
    if isinstance(config, RunConfig):
        return _merged([("the given configuration", config.model_dump()), ("argument", given)])
    where, file = _file_layer(config)
    per_agent = _agents_of(file, where)
    chosen = _name(preset or file.get("preset") or DEFAULT_PRESET, where, "preset")
    agent = _name(given.get("agent") or file.get("agent") or BASE["agent"], where, "agent")
    own = {key: value for key, value in file.items() if key not in (*_FILE_ONLY, "preset")}
    return _merged(
        [
            ("base", BASE),
            (f"preset {chosen}", {**preset_layer(chosen), "preset": chosen}),
            (f"agent {agent}", AGENTS.get(agent, {})),
            (where, own),
            (f"{where}, agents.{agent}", per_agent.get(agent, {})),
            ("argument", given),
        ]
    )


def _file_layer(config: Mapping[str, Any] | Path | str | None) -> tuple[str, Mapping[str, Any]]:
    if config is None:
        return "settings", {}
    where, settings = ("settings", config) if isinstance(config, Mapping) else (str(config), read_config_file(config))
    _check_keys(settings, (*SETTINGS, *_FILE_ONLY), where)
    return where, settings


def _agents_of(settings: Mapping[str, Any], where: str) -> Mapping[str, Layer]:
    tables = settings.get("agents", {})
    if not isinstance(tables, Mapping) or not all(isinstance(table, Mapping) for table in tables.values()):
        raise InputError(f"{where}: agents is no table of tables", remedy="write [agents.NAME] and settings below it")
    allowed = [key for key in SETTINGS if key not in ("agent", "preset")]
    for name, table in tables.items():
        _check_keys(table, allowed, f"{where}, agents.{name}")
    return tables


def _name(value: Any, where: str, key: str) -> str:
    if not isinstance(value, str):
        raise InputError(f"{where}: {key}: {value!r} is no name", remedy="give a text")
    return value


def _check_keys(settings: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    known = tuple(known)
    for key in settings:
        if key not in known:
            raise InputError(f"{where}: unknown setting {key!r}", remedy=did_you_mean(key, known))
    _check_model_keys(settings.get("model"), where)


def _check_model_keys(model: Any, where: str) -> None:
    known = tuple(ModelConfig.model_fields)
    for key in model if isinstance(model, Mapping) else ():
        if key not in known:
            raise InputError(f"{where}, model: unknown setting {key!r}", remedy=did_you_mean(key, known))


def _merged(layers: Iterable[tuple[str, Layer]]) -> Resolved:
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for name, layer in layers:
        for key, value in layer.items():
            origins[key] = name
            values[key] = merged_tables(values.get(key), value)
    return Resolved(validated(values, origins), _all_origins(origins))


def merged_tables(old: Any, new: Any) -> Any:
    """``new`` over ``old``: tables key by key, all the way down; anything else is ``new``."""
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return dict(new) if isinstance(new, Mapping) else new
    return {**old, **{key: merged_tables(old.get(key), value) for key, value in new.items()}}


def _all_origins(origins: Mapping[str, str]) -> dict[str, str]:
    return {key: origins.get(key, "default") for key in SETTINGS}


def validated(values: Mapping[str, Any], origins: Mapping[str, str]) -> RunConfig:
    """Whole settings; ``InputError`` names the key, and who has said so (``origins``)."""
    try:
        return RunConfig.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        origin = origins.get(str(first["loc"][0]) if first["loc"] else "", "")
        message = first["msg"].removeprefix("Value error, ")
        raise InputError(f"{origin}: {key}: {message}" if origin else f"{key}: {message}") from None
