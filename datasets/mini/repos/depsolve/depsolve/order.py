"""Topological orders."""

from __future__ import annotations

from .errors import CycleError
from .graph import Graph


def install_order(graph: Graph) -> list[str]:
    """Every package after everything it needs, otherwise in the order of the graph."""
    order: list[str] = []
    done: dict[str, bool] = {}  # False while the packages it needs are being visited

    def visit(package: str, path: list[str]) -> None:
        if done.get(package):
            return
        if package in done:
            raise CycleError(path[path.index(package) :] + [package])
        done[package] = False
        path.append(package)
        for name in graph.needs(package):
            visit(name, path)
        path.pop()
        done[package] = True
        order.append(package)

    for package in graph:
        visit(package, [])
    return order


def layers(graph: Graph) -> list[list[str]]:
    """Groups of packages; each group needs only packages of the groups before it."""
    depth: dict[str, int] = {}
    groups: list[list[str]] = []
    for package in install_order(graph):
        depth[package] = 1 + max((depth[name] for name in graph.needs(package)), default=-1)
        if depth[package] == len(groups):
            groups.append([])
        groups[depth[package]].append(package)
    return groups
