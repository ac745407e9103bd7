"""Configuration files."""

from .config import Config
from .errors import IniError
from .reader import loads
from .writer import dumps

__all__ = ["Config", "IniError", "dumps", "loads"]
