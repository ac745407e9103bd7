"""A calculator for expressions typed by users: a recursive descent parser that evaluates as it reads."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Callable

from calc_functions import CONSTANTS, FUNCTIONS
from calc_lexer import CalcError, Token, tokenize

__all__ = ["CalcError", "Calculator"]

_SUMS: dict[str, Callable[[float, float], float]] = {"+": operator.add, "-": operator.sub}
_PRODUCTS: dict[str, Callable[[float, float], float]] = {
    "*": operator.mul,
    "/": operator.truediv,
    "%": operator.mod,
}


class Calculator:
    """Evaluates expressions over a set of variables."""

    def __init__(self, variables: Mapping[str, float] | None = None) -> None:
        self.variables: dict[str, float] = {**CONSTANTS, **(variables or {})}

    def evaluate(self, text: str) -> float:
        """Return the value of ``text``, or raise ``CalcError``."""
        return _Evaluation(text, self.variables).run()


class _Evaluation:
    def __init__(self, text: str, variables: Mapping[str, float]) -> None:
        self._tokens = list(tokenize(text))
        self._index = 0
        self._variables = variables

    def run(self) -> float:
        value = self._sum()
        if self._current.kind != "end":
            raise CalcError(f"unexpected {self._current.text!r}", self._current.position)
        return value

    @property
    def _current(self) -> Token:
        return self._tokens[self._index]

    def _advance(self) -> Token:
        token = self._current
        self._index += 1
        return token

    def _accept(self, *texts: str) -> Token | None:
        if self._current.kind == "op" and self._current.text in texts:
            return self._advance()
        return None

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            raise CalcError(f"expected {text!r}", self._current.position)

    def _sum(self) -> float:
        value = self._product()
        while token := self._accept("+", "-"):
            value = _SUMS[token.text](value, self._product())
        return value

    def _product(self) -> float:
        value = self._power()
        while token := self._accept("*", "/", "%"):
            right = self._power()
            if token.text != "*" and right == 0:
                raise CalcError("division by zero", token.position)
            value = _PRODUCTS[token.text](value, right)
        return value

    def _power(self) -> float:
        value = self._unary()
        while token := self._accept("^"):
            value = _raise(value, self._unary(), token)
        return value

    def _unary(self) -> float:
        if self._accept("-"):
            return -self._unary()
        if self._accept("+"):
            return self._unary()
        return self._atom()

    def _atom(self) -> float:
        token = self._advance()
        if token.kind == "number":
            return float(token.text)
        if token.kind == "name":
            return self._call(token) if self._accept("(") else self._variable(token)
        if token.text == "(":
            value = self._sum()
            self._expect(")")
            return value
        raise CalcError("expected a number, a name or '('", token.position)

    def _variable(self, name: Token) -> float:
        try:
            return self._variables[name.text]
        except KeyError:
            raise CalcError(f"unknown name {name.text!r}", name.position) from None

    def _call(self, name: Token) -> float:
        function = FUNCTIONS.get(name.text)
        if function is None:
            raise CalcError(f"unknown function {name.text!r}", name.position)
        arguments: list[float] = []
        if not self._accept(")"):
            arguments.append(self._sum())
            while self._accept(","):
                arguments.append(self._sum())
            self._expect(")")
        try:
            return float(function(*arguments))
        except (TypeError, ValueError) as error:
            raise CalcError(f"{name.text}: {error}", name.position) from error


def _raise(base: float, exponent: float, token: Token) -> float:
    try:
        value = base**exponent
    except (OverflowError, ZeroDivisionError) as error:
        raise CalcError(str(error), token.position) from error
    if isinstance(value, complex):
        raise CalcError("the result is not a real number", token.position)
    return value
