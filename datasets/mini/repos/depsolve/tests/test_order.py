import pytest

from depsolve import CycleError, Graph, install_order, layers

SHOP = """
app: web, db
web: log
db: log
tool: log
"""


def test_dependencies_come_first():
    assert install_order(Graph.from_text(SHOP)) == ["log", "web", "db", "app", "tool"]


def test_order_of_the_text_is_kept():
    assert install_order(Graph.from_text("b:\na:\nc: a\n")) == ["b", "a", "c"]


def test_layers():
    assert layers(Graph.from_text(SHOP)) == [["log"], ["web", "db", "tool"], ["app"]]


def test_empty_graph():
    assert install_order(Graph()) == []
    assert layers(Graph()) == []


def test_cycle_shows_its_path():
    with pytest.raises(CycleError) as caught:
        install_order(Graph.from_text("start: a\na: b\nb: c\nc: a\n"))
    assert caught.value.path == ["a", "b", "c", "a"]
    assert "a -> b -> c -> a" in str(caught.value)


def test_package_that_needs_itself():
    with pytest.raises(CycleError) as caught:
        layers(Graph.from_text("a: a"))
    assert caught.value.path == ["a", "a"]
