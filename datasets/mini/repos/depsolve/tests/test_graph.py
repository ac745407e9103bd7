import pytest

from depsolve import Graph, GraphError


def test_read_text():
    graph = Graph.from_text("# packages\napp: web, db\n\nweb:   # nothing\n")
    assert list(graph) == ["app", "web"]
    assert graph.needs("app") == ("web", "db")
    assert graph.needs("web") == ()
    assert len(graph) == 2


def test_dependencies_add_up():
    graph = Graph()
    graph.add("app", ["web"])
    graph.add("app", ["db", "web"])
    assert graph.needs("app") == ("web", "db")


@pytest.mark.parametrize("line", ["app web", ": web"], ids=["colon", "package"])
def test_bad_line(line):
    with pytest.raises(GraphError, match="line 2"):
        Graph.from_text("ok:\n" + line)
