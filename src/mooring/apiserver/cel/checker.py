"""Checks a rule against a schema as far as its types are known. An unknown type fits everything, and evaluation
decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from mooring.apiserver.cel import values
from mooring.apiserver.cel.compiler import function_of, unescaped
from mooring.apiserver.cel.lexer import CelSyntaxError
from mooring.apiserver.cel.parser import (
    CallExpression,
    Comprehension,
    IndexExpression,
    ListOf,
    Literal,
    MapOf,
    Name,
    Node,
    Select,
    parse,
)
from mooring.apiserver.regexp.programs import go_regexp


class CelType(msgspec.Struct, frozen=True):
    """A type. of: of a list's items or a map's values. fields: an object's, by name; None for what is no object."""

    name: str
    of: CelType | None = None
    fields: Callable[[str], CelType | None] | None = None

    def __str__(self) -> str:
        if self.name == "list":
            return f"list({self.of or DYN})"
        return f"map(string, {self.of or DYN})" if self.name == "map" else self.name


DYN: Final = CelType("dyn")
BOOL: Final = CelType("bool")
INT: Final = CelType("int")
STRING: Final = CelType("string")

_NUMBERS: Final = ("int", "double")
_OPERATOR_NAMES: Final = {"in": "@in", "!_": "!_", "-_": "-_", "?:": "_?_:_"}
_WITH_PATTERNS: Final = ("matches", "find", "findAll")
_LITERALS: Final = {
    bool: BOOL,
    int: INT,
    float: CelType("double"),
    str: STRING,
    bytes: CelType("bytes"),
    type(None): CelType("null_type"),
}
_SUMS: Final = {
    ("timestamp", "duration"): {"+": "timestamp", "-": "timestamp"},
    ("duration", "timestamp"): {"+": "timestamp"},
    ("duration", "duration"): {"+": "duration", "-": "duration"},
    ("timestamp", "timestamp"): {"-": "duration"},
    ("string", "string"): {"+": "string"},
    ("bytes", "bytes"): {"+": "bytes"},
    ("int", "int"): dict.fromkeys("+-*/%", "int"),
    ("double", "double"): dict.fromkeys("+-*/", "double"),
}


class CompileError(ValueError):
    """A rule that can't be: the text says where and why, as the API server does."""


def checked(text: str, names: Mapping[str, CelType]) -> tuple[Node, CelType]:
    """The rule's tree and its type. Raises CompileError."""
    try:
        tree = parse(text)
        return tree, _Checker(names).type_of(tree)
    except CelSyntaxError as error:
        line = text[: error.at].count("\n")
        column = error.at - (text.rfind("\n", 0, error.at) + 1)
        shown = text.split("\n")[line]
        what = str(error) if isinstance(error, _Unfit) else f"Syntax error: {error}"
        raise CompileError(
            f"compilation failed: ERROR: <input>:{line + 1}:{column + 1}: {what}\n | {shown}\n | {'.' * column}^"
        ) from error
    except RecursionError:
        raise CompileError("compilation failed: expression recursion limit exceeded") from None


def mentions(tree: Node, name: str) -> bool:
    return (isinstance(tree, Name) and tree.name == name) or any(mentions(inner, name) for inner in _below(tree))


class _Unfit(CelSyntaxError):
    """The text is CEL, but not for this schema."""


class _Checker:
    def __init__(self, names: Mapping[str, CelType]) -> None:
        self._names = names

    def type_of(self, node: Node) -> CelType:
        match node:
            case Literal(value):
                return _LITERALS[type(value)]
            case Name():
                return self._name(node)
            case Select():
                return self._select(node)
            case IndexExpression():
                return self._index(node)
            case ListOf(items):
                return CelType("list", _common([self.type_of(item) for item in items]))
            case MapOf(entries):
                for key, _ in entries:
                    self.type_of(key)
                return CelType("map", _common([self.type_of(value) for _, value in entries]))
            case Comprehension():
                return self._comprehension(node)
        return self._call(node)

    def _name(self, node: Name) -> CelType:
        found = self._names.get(node.name)
        if found is None and node.name in values.TYPES:
            return CelType("type")
        if found is None:
            raise _Unfit(f"undeclared reference to '{node.name}' (in container '')", node.at)
        return found

    def _select(self, node: Select) -> CelType:
        holder = self.type_of(node.of)
        at = max(node.at - 1, 0)
        found: CelType | None = DYN
        if holder.name == "map":
            found = holder.of
        elif holder.fields is not None:
            found = holder.fields(unescaped(node.field))
        elif holder.name not in ("dyn", "optional"):
            raise _Unfit(f"type '{holder}' does not support field selection", at)
        if found is None:
            raise _Unfit(f"undefined field '{unescaped(node.field)}'", at)
        if node.test:
            return BOOL
        return CelType("optional") if node.optional or holder.name == "optional" else found

    def _index(self, node: IndexExpression) -> CelType:
        holder, key = self.type_of(node.of), self.type_of(node.key)
        wanted = {
            "list": ("int", "double", "dyn"),
            "map": ("string", "dyn", "int", "bool"),
            "dyn": (key.name,),
            "optional": (key.name,),
        }
        if key.name not in wanted.get(holder.name, ()):
            raise _Unfit(f"found no matching overload for '_[_]' applied to '({holder}, {key})'", node.at)
        return CelType("optional") if node.optional or holder.name == "optional" else holder.of or DYN

    def _comprehension(self, node: Comprehension) -> CelType:
        over = self.type_of(node.of)
        if over.name not in ("list", "map", "dyn"):
            raise _Unfit(
                f"expression of type '{over}' cannot be range of a comprehension (must be list, map, or dynamic)",
                node.at,
            )
        item = over.of or DYN
        first = {"map": STRING, "list": INT}.get(over.name, DYN)
        kinds = (first, item) if len(node.names) == 2 else (STRING if over.name == "map" else item,)
        inner = _Checker({**self._names, **dict(zip(node.names, kinds, strict=True))})
        if node.condition is not None:
            inner._expect_bool(node.condition)
        if node.macro == "map":
            return CelType("list", inner.type_of(node.step))
        inner._expect_bool(node.step)
        return CelType("list", kinds[0]) if node.macro == "filter" else BOOL

    def _expect_bool(self, node: Node) -> None:
        found = self.type_of(node)
        if found.name not in ("bool", "dyn"):
            raise _Unfit(f"expected type 'bool' but found '{found}'", node.at)

    def _call(self, node: CallExpression) -> CelType:
        if node.target is None and node.function in ("&&", "||"):
            for arg in node.args:
                self._expect_bool(arg)
            return BOOL
        function, args = function_of(node)
        if function is None:
            return self._operator(node)
        kinds = [self.type_of(arg) for arg in args]
        _check_patterns(node)
        if any(len(takes) == len(kinds) and all(map(_fits, takes, kinds)) for takes in function.takes):
            return CelType(function.gives)
        if node.target is not None and len(args) > len(node.args):
            shown = f"{kinds[0]}.({', '.join(map(str, kinds[1:]))})"
        else:
            shown = f"({', '.join(map(str, kinds))})"
        raise _Unfit(
            f"found no matching overload for '{node.function}' applied to '{shown}'", node.at + len(node.function)
        )

    def _operator(self, node: CallExpression) -> CelType:
        if node.target is not None or (node.function[:1].isalpha() and node.function != "in"):
            known = isinstance(node.target, Name) and node.target.name not in self._names
            if node.target is not None and not known:
                self.type_of(node.target)
            raise _Unfit(f"undeclared reference to '{node.function}' (in container '')", node.at + len(node.function))
        kinds = [self.type_of(arg) for arg in node.args]
        found = _result(node.function, kinds)
        if found is None:
            name = _OPERATOR_NAMES.get(node.function, f"_{node.function}_")
            raise _Unfit(
                f"found no matching overload for '{name}' applied to '({', '.join(map(str, kinds))})'", node.at
            )
        return found


def _check_patterns(node: CallExpression) -> None:
    """A pattern that stands in the rule must be one."""
    for arg in node.args if node.function in _WITH_PATTERNS else ():
        if isinstance(arg, Literal) and isinstance(arg.value, str):
            try:
                go_regexp(arg.value)
            except ValueError:
                raise _Unfit(f"invalid {node.function} argument", arg.at) from None


def _result(sign: str, kinds: list[CelType]) -> CelType | None:
    """An operator's type; None where the operands don't fit."""
    if sign == "?:":
        condition, chosen, other = kinds
        return _joined(chosen, other) if condition.name in ("bool", "dyn") else None
    if sign in ("!_", "-_"):
        fine = kinds[0].name in (("bool", "dyn") if sign == "!_" else ("int", "double", "duration", "dyn"))
        return kinds[0] if fine else None
    left, right = kinds
    if sign in ("==", "!="):
        return BOOL if _comparable(left, right) else None
    if sign == "in":
        holds = right.name in ("list", "map", "dyn") and (right.name == "map" or _comparable(left, right.of or DYN))
        return BOOL if holds else None
    if "dyn" in (left.name, right.name):
        return BOOL if sign in ("<", "<=", ">", ">=") else DYN
    if sign in ("<", "<=", ">", ">="):
        both = left.name == right.name and left.name not in ("list", "map", "object", "null_type")
        return BOOL if both or (left.name in _NUMBERS and right.name in _NUMBERS) else None
    if sign == "+" and left.name == right.name == "list":
        return left
    gives = _SUMS.get((left.name, right.name), {}).get(sign)
    return None if gives is None else CelType(gives)


def _comparable(left: CelType, right: CelType) -> bool:
    names = {left.name, right.name}
    if left.name == right.name == "list":
        return _comparable(left.of or DYN, right.of or DYN)
    return (
        len(names) == 1
        or bool(names & {"dyn", "null_type", "optional"})
        or names == set(_NUMBERS)
        or names == {"map", "object"}
    )


def _joined(left: CelType, right: CelType) -> CelType | None:
    if left.name == right.name:
        return left
    return DYN if "dyn" in (left.name, right.name) or "null_type" in (left.name, right.name) else None


def _common(kinds: list[CelType]) -> CelType:
    return kinds[0] if kinds and len({kind.name for kind in kinds}) == 1 else DYN


def _fits(wanted: str, found: CelType) -> bool:
    return wanted in ("dyn", found.name) or found.name == "dyn"


def _below(tree: Node) -> tuple[Node, ...]:
    match tree:
        case Select(of):
            return (of,)
        case IndexExpression(of, key):
            return of, key
        case CallExpression(_, target, args):
            return (*args, target) if target is not None else args
        case ListOf(items):
            return items
        case MapOf(entries):
            return tuple(inner for entry in entries for inner in entry)
        case Comprehension():
            return (tree.of, tree.step) if tree.condition is None else (tree.of, tree.step, tree.condition)
    return ()
