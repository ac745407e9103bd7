"""A small template language."""

from .errors import TemplateError
from .template import Template

__all__ = ["Template", "TemplateError"]
