"""Order packages by their dependencies."""

from .errors import CycleError, GraphError
from .graph import Graph
from .order import install_order, layers

__all__ = ["CycleError", "Graph", "GraphError", "install_order", "layers"]
