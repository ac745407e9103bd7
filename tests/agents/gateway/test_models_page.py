"""The page about models says what the code does."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from swe_sdk.agents import model_endpoint
from swe_sdk.agents.contract import ModelAccess
from swe_sdk.agents.gateway import refusals
from swe_sdk.agents.gateway.admission import CallState
from swe_sdk.agents.gateway.gateway import Gateway
from swe_sdk.agents.gateway.ledger import CallEnd
from swe_sdk.agents.gateway.refusals import Refusal
from swe_sdk.agents.gateway.routes import ROUTES
from swe_sdk.agents.gateway.session import GatewaySession
from swe_sdk.agents.gateway.settings import GatewaySettings
from swe_sdk.testing.scripted.script import Fault, Turn

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "models.md").read_text("utf-8")
ROWS = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in PAGE.splitlines() if line.startswith("|")]


def codes(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def row(start: str) -> list[str]:
    (found,) = [cells for cells in ROWS if cells[0] == start]
    return found


def test_every_refusal_is_in_the_table() -> None:
    constants = [value for _name, value in inspect.getmembers(refusals) if isinstance(value, Refusal)]
    made = {(r.status, r.code, refusals.error_type(r.status)) for r in (*constants, refusals.unknown_model("x"))}
    shown = {
        (int(cells[0]), code, codes(cells[2])[0]) for cells in ROWS if cells[0].isdigit() for code in codes(cells[1])
    }
    assert shown == made


def test_every_setting_is_in_the_table_with_its_default() -> None:
    settings = {name: str(field.default) for name, field in GatewaySettings.model_fields.items()}
    shown = {}
    for cells in ROWS:
        names = codes(cells[0])
        if names and set(names) <= settings.keys():
            shown |= dict(zip(names, cells[1].split(", "), strict=True))
    assert shown == settings


def test_paths_ends_and_variables() -> None:
    assert set(codes(row("paths")[1])) - {"POST", "GET /models"} == ROUTES
    ends = re.search(r"how it ended\n\((.*?)\)", PAGE, re.DOTALL)
    assert ends is not None
    assert tuple(codes(ends[1])) == CallEnd.__args__  # type: ignore[attr-defined]
    env = model_endpoint.model_env(ModelAccess(name="m", base_url="http://x/v1"))
    assert all(f"`{name}`" in PAGE for name in env)
    assert f"127.0.0.1:{model_endpoint.BOX_PORT}" in PAGE


def test_methods_and_fields_are_there() -> None:
    for owner, name in re.findall(r"(?<![\w.])(gateway|session)\.(\w+)", PAGE):
        if (owner, name) == ("gateway", "gateway"):  # of the module's name, in an import
            continue
        known = {"gateway": Gateway, "session": GatewaySession}[owner]
        assert hasattr(known, name) or name in vars(known)["__init__"].__code__.co_names, (owner, name)
    assert set(codes(row("`Turn` (`say`, `act`)")[1])) - {"open_gate"} == set(Turn.model_fields)
    assert set(codes(row("`Fault` (`fail`)")[1])) == set(Fault.model_fields)
    assert "delivering" in CallState.__args__  # type: ignore[attr-defined]
