"""CEL tokens into a tree, by precedence climbing. Macros are known here: they bind names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from mooring.apiserver.cel.lexer import RESERVED, CelSyntaxError, Token, tokens_of

T = TypeVar("T")

TEXT_MAX: Final = 16_384
_DEPTH_MAX: Final = 50
_CHAIN_MAX: Final = 100

_BINARY: Final = {
    "||": 1,
    "&&": 2,
    **dict.fromkeys(("<", "<=", ">", ">=", "==", "!=", "in"), 3),
    **dict.fromkeys(("+", "-"), 4),
    **dict.fromkeys(("*", "/", "%"), 5),
}
MACROS: Final = {"all": 2, "exists": 2, "exists_one": 2, "existsOne": 2, "filter": 2, "map": 2}
"""Comprehensions, and how many arguments they have at least; one more where there is a second variable or a
condition.
"""


class Literal(msgspec.Struct, frozen=True):
    value: Any
    at: int


class Name(msgspec.Struct, frozen=True):
    name: str
    at: int


class Select(msgspec.Struct, frozen=True):
    """`of.field`. optional: `of.?field`. test: `has(of.field)`."""

    of: Node
    field: str
    at: int
    optional: bool = False
    test: bool = False


class IndexExpression(msgspec.Struct, frozen=True):
    """`of[key]`. optional: `of[?key]`."""

    of: Node
    key: Node
    at: int
    optional: bool = False


class CallExpression(msgspec.Struct, frozen=True):
    """A function, a method (target) or an operator (its sign; `-_` negates, `?:` chooses)."""

    function: str
    target: Node | None
    args: tuple[Node, ...]
    at: int


class ListOf(msgspec.Struct, frozen=True):
    items: tuple[Node, ...]
    at: int


class MapOf(msgspec.Struct, frozen=True):
    entries: tuple[tuple[Node, Node], ...]
    at: int


class Comprehension(msgspec.Struct, frozen=True):
    """A macro. names: one or two variables. condition: the filter of a `map` with three arguments."""

    macro: str
    of: Node
    names: tuple[str, ...]
    condition: Node | None
    step: Node
    at: int


Node = Literal | Name | Select | IndexExpression | CallExpression | ListOf | MapOf | Comprehension


def parse(text: str) -> Node:
    """Raises CelSyntaxError."""
    if len(text) > TEXT_MAX:
        raise CelSyntaxError(f"an expression of more than {TEXT_MAX} characters", 0)
    parser = _Parser(tokens_of(text))
    tree = parser.expression()
    parser.expect("end", "<EOF>")
    return tree


class _Parser:
    def __init__(self, tokens: list[Token]) -> None:
        self._tokens, self._place, self._depth = tokens, 0, 0

    def expression(self) -> Node:
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise CelSyntaxError("expression recursion limit exceeded", self._next.at)
        condition = self._binary(1)
        if self._is_sign("?"):
            at = self._take().at
            chosen = self._binary(1)
            self.expect("sign", ":")
            condition = CallExpression("?:", None, (condition, chosen, self.expression()), at)
        self._depth -= 1
        return condition

    def expect(self, kind: str, value: str = "") -> Token:
        token = self._next
        if token.kind != kind or (value and token.value != value):
            raise CelSyntaxError(f"mismatched input '{token.value}' expecting '{value or kind}'", token.at)
        return self._take()

    @property
    def _next(self) -> Token:
        return self._tokens[self._place]

    def _take(self) -> Token:
        token = self._next
        self._place += 1
        return token

    def _is_sign(self, *signs: str) -> bool:
        return self._next.kind == "sign" and self._next.value in signs

    def _binary(self, lowest: int) -> Node:
        left, length = self._unary(), 0
        while (power := self._power()) >= lowest:
            token, length = self._take(), length + 1
            if length > _CHAIN_MAX:
                raise CelSyntaxError("expression recursion limit exceeded", token.at)
            left = CallExpression(str(token.value), None, (left, self._binary(power + 1)), token.at)
        return left

    def _power(self) -> int:
        token = self._next
        return (
            _BINARY.get(token.value, 0) if token.kind == "sign" or (token.kind == "name" and token.value == "in") else 0
        )

    def _unary(self) -> Node:
        if not self._is_sign("!", "-"):
            return self._postfix(self._primary())
        token = self._take()
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise CelSyntaxError("expression recursion limit exceeded", token.at)
        of = self._unary()
        self._depth -= 1
        if (
            token.value == "-"
            and isinstance(of, Literal)
            and isinstance(of.value, int | float)
            and not isinstance(of.value, bool)
        ):
            return Literal(-of.value, token.at)
        return CallExpression("!_" if token.value == "!" else "-_", None, (of,), token.at)

    def _postfix(self, node: Node) -> Node:
        length = 0
        while self._is_sign(".", ".?", "[", "[?"):
            token, length = self._take(), length + 1
            if length > _CHAIN_MAX:
                raise CelSyntaxError("expression recursion limit exceeded", token.at)
            optional = token.value in (".?", "[?")
            if token.value in ("[", "[?"):
                node = IndexExpression(node, self.expression(), token.at, optional)
                self.expect("sign", "]")
            else:
                node = self._member(node, optional)
        return node

    def _member(self, of: Node, optional: bool) -> Node:
        name = self.expect("name")
        if name.value == "in":
            raise CelSyntaxError("mismatched input 'in' expecting 'name'", name.at)
        if optional or not self._is_sign("("):
            return Select(of, str(name.value), name.at, optional)
        args = self._arguments()
        if name.value in MACROS and len(args) >= MACROS[name.value]:
            return _comprehension(str(name.value), of, args, name.at)
        return CallExpression(str(name.value), of, tuple(args), name.at)

    def _arguments(self) -> list[Node]:
        self.expect("sign", "(")
        return self._items(")", self.expression)

    def _primary(self) -> Node:
        token = self._take()
        match token.kind, token.value:
            case "value", value:
                return Literal(value, token.at)
            case "name", name if name not in RESERVED:
                return self._named(str(name), token.at)
            case "sign", "(":
                inner = self.expression()
                self.expect("sign", ")")
                return inner
            case "sign", "[":
                return ListOf(tuple(self._items("]", self.expression)), token.at)
            case "sign", "{":
                return MapOf(tuple(self._items("}", self._entry)), token.at)
        raise CelSyntaxError(f"mismatched input '{token.value}'", token.at)

    def _named(self, name: str, at: int) -> Node:
        if not self._is_sign("("):
            return Name(name, at)
        args = self._arguments()
        if name != "has":
            return CallExpression(name, None, tuple(args), at)
        if len(args) != 1 or not isinstance(args[0], Select):
            raise CelSyntaxError("invalid argument to has() macro", at + len("has"))
        return msgspec.structs.replace(args[0], test=True)

    def _items(self, end: str, one: Callable[[], T]) -> list[T]:
        items = []
        while not self._is_sign(end):
            items.append(one())
            if not self._is_sign(end):
                self.expect("sign", ",")
        self._take()
        return items

    def _entry(self) -> tuple[Node, Node]:
        key = self.expression()
        self.expect("sign", ":")
        return key, self.expression()


def _comprehension(macro: str, of: Node, args: list[Node], at: int) -> Comprehension:
    """`all(x, p)`, `map(x, t)`, `map(x, p, t)`, and the forms with two variables (`all(k, v, p)`)."""
    two = len(args) == 3 and macro != "map"
    names = args[: 2 if two else 1]
    if len(args) > 3 or (macro == "filter" and two) or not all(isinstance(name, Name) for name in names):
        raise CelSyntaxError(f"invalid arguments to {macro}() macro: argument must be a simple name", at)
    condition = args[1] if macro == "map" and len(args) == 3 else None
    return Comprehension(
        macro, of, tuple(name.name for name in names if isinstance(name, Name)), condition, args[-1], at
    )
