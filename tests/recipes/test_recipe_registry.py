"""Recipes by name; other packages' recipes are loaded only when they are asked for."""

from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints

import pytest
import sample_rows

from swe_sdk.errors import InputError, PrerequisiteError, UnknownFamily
from swe_sdk.recipes import registry
from swe_sdk.recipes.dataset import load_tasks
from swe_sdk.recipes.swe_bench import SweBenchRecipe


class OtherRecipe(SweBenchRecipe):
    family = "other"

    def recognizes(self, row):
        return "other_field" in row


def broken():
    raise ZeroDivisionError("at import")


@pytest.fixture
def offered(monkeypatch):
    """Offers recipes of this file as another package would."""
    asked = []

    def offer(**objects: str):
        points = [EntryPoint(name, f"{__name__}:{value}", registry.ENTRY_POINTS) for name, value in objects.items()]

        def entry_points(*, group: str) -> EntryPoints:
            asked.append(group)
            return EntryPoints(points)

        monkeypatch.setattr(registry, "entry_points", entry_points)
        registry.get_recipe.cache_clear()
        return asked

    yield offer
    registry.get_recipe.cache_clear()


def test_our_own_recipes_are_found_without_looking_elsewhere(offered):
    asked = offered(other="OtherRecipe")
    assert isinstance(registry.get_recipe("swe-bench"), SweBenchRecipe)
    assert registry.get_recipe("swe-bench") is registry.get_recipe("swe-bench")
    assert registry.detect_family(sample_rows.CLASSIC) == "swe-bench"
    assert asked == []


def test_another_packages_recipe_is_found_and_its_rows_detected(offered):
    offered(other="OtherRecipe")
    assert {"other", "swe-bench", "swe-rebench"} <= set(registry.recipe_names())
    assert isinstance(registry.get_recipe("other"), OtherRecipe)
    assert registry.detect_family({"other_field": 1}) == "other"
    row = {key: value for key, value in sample_rows.CLASSIC.items() if key != "version"}
    tasks = load_tasks([{**row, "version": "2.3", "family": "other"}])
    assert tasks[0].family == "other"


def test_rules_of_another_packages_recipe_are_asked_for_by_name(offered):
    offered(other="OtherRecipe")
    assert registry.get_recipe("other@4.1.0").compat == "4.1.0"
    with pytest.raises(PrerequisiteError, match="unknown compat 'lenient'"):
        registry.get_recipe("other@lenient")


@pytest.fixture
def registered():
    """A family of this process, forgotten with the test."""
    registry.register_recipe(OtherRecipe())
    yield registry.get_recipe("other")
    if "other" in registry._registered:
        registry.unregister_recipe("other")


def test_a_family_of_this_process_is_one_call_and_can_be_undone(registered):
    assert "other" in registry.recipe_names()
    assert registry.detect_family({"other_field": 1}) == "other"
    assert registry.detect_family({**sample_rows.CLASSIC, "other_field": 1}) == "swe-bench", "our own come first"
    again = OtherRecipe()
    registry.register_recipe(again)
    assert registry.get_recipe("other") is again is not registered, "as when a cell of a notebook is run again"
    registry.unregister_recipe("other")
    with pytest.raises(UnknownFamily):
        registry.get_recipe("other")
    with pytest.raises(UnknownFamily):
        registry.unregister_recipe("other")
    assert registry.detect_family({"other_field": 1}) is None


def test_a_family_of_this_process_hides_that_of_a_package(offered, registered):
    offered(other="OtherRecipe")
    assert registry.get_recipe("other") is registered
    registry.unregister_recipe("other")
    assert isinstance(registry.get_recipe("other"), OtherRecipe)


class Half:
    family, version = "half", "half/1"

    def recognizes(self, row):
        return False


@pytest.mark.parametrize(
    ("recipe", "problem"),
    [
        (OtherRecipe, "it is a class"),
        (Half(), "it has no ladder, to_task, parse, judge"),
        (None, "it has no family"),
        (SweBenchRecipe(), "'swe-bench' cannot be the name"),
        (type("At", (OtherRecipe,), {"family": "mine@legacy"})(), "'mine@legacy' cannot be the name"),
    ],
)
def test_what_cannot_be_registered_says_why(recipe, problem):
    with pytest.raises(InputError, match=problem) as caught:
        registry.register_recipe(recipe)
    assert caught.value.remedy
    assert registry._registered == {}


def test_unknown_names_get_proposals(offered):
    offered(other="OtherRecipe")
    with pytest.raises(UnknownFamily, match="did you mean other"):
        registry.get_recipe("othr")
    assert registry.detect_family({"instance_id": "a"}) is None
    assert registry.detect_family({"family": "whatever"}) == "whatever"


@pytest.mark.parametrize("value", ["broken", "pytest", "does_not_exist"])
def test_a_recipe_that_cannot_be_loaded_is_named(value, offered):
    offered(bad=value)
    with pytest.raises(PrerequisiteError, match=rf"'?bad'?.*|{__name__}:{value}") as caught:
        registry.get_recipe("bad")
    assert caught.value.remedy
