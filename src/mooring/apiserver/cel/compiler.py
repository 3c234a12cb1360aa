"""A CEL tree into a Python function. Work is counted: a rule that takes too long ends with an error, like any that
fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from mooring.apiserver.cel import values, work
from mooring.apiserver.cel.functions import FUNCTIONS, METHODS, PATTERN_FUNCTIONS, Function
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
)
from mooring.apiserver.cel.values import NONE, CelError, Optional, Type, no_overload
from mooring.apiserver.effort import Effort


class CelScope:
    """Names and their values, and how much work is left."""

    __slots__ = ("_left", "_names")

    def __init__(self, names: Mapping[str, Any], left: Effort) -> None:
        self._names, self._left = names, left

    def __getitem__(self, name: str) -> Any:
        return self._names[name]

    @property
    def left(self) -> int:
        """Steps."""
        return self._left.left

    def did(self, steps: int) -> None:
        """Raises TooMuch."""
        self._left.spend(steps)

    def bound(self, names: Mapping[str, Any]) -> CelScope:
        """With more names; the work is counted together."""
        return CelScope({**self._names, **names}, self._left)


Program = Callable[[CelScope], Any]


def compiled(node: Node) -> Program:
    """node: as `checker.check` has accepted it. The program raises CelError, TooMuch."""
    match node:
        case Literal(value):
            return lambda _scope: value
        case Name(name):
            return _name(name)
        case Select():
            return _select(node)
        case IndexExpression():
            return _index(node)
        case CallExpression():
            return _call(node)
        case ListOf(items):
            programs = [compiled(item) for item in items]
            return lambda scope: [program(scope) for program in programs]
        case MapOf(entries):
            pairs = [(compiled(key), compiled(value)) for key, value in entries]
            return lambda scope: {key(scope): value(scope) for key, value in pairs}
        case Comprehension():
            return _comprehension(node)


def _name(name: str) -> Program:
    kind = Type(name) if name in values.TYPES else None

    def find(scope: CelScope) -> Any:
        try:
            return scope[name]
        except KeyError:
            if kind is None:
                raise CelError(f"no such attribute: {name}") from None
            return kind

    return find


def _select(node: Select) -> Program:
    of, field = compiled(node.of), unescaped(node.field)

    def member(scope: CelScope) -> Any:
        holder = of(scope)
        inner = holder.value if isinstance(holder, Optional) else holder
        if isinstance(holder, Optional) and not holder.there:
            return False if node.test else NONE
        if not isinstance(inner, dict):
            raise no_overload()
        there = inner.get(field) is not None
        if node.test:
            return there
        if node.optional or isinstance(holder, Optional):
            return Optional(there=True, value=inner[field]) if there else NONE
        if field not in inner:
            raise CelError(f"no such key: {field}")
        return inner[field]

    return member


def _index(node: IndexExpression) -> Program:
    of, key = compiled(node.of), compiled(node.key)

    def item(scope: CelScope) -> Any:
        holder, wanted = of(scope), key(scope)
        inner = holder.value if isinstance(holder, Optional) else holder
        optional = node.optional or isinstance(holder, Optional)
        try:
            found = NONE if isinstance(holder, Optional) and not holder.there else _at(inner, wanted)
        except CelError:
            if not optional:
                raise
            return NONE
        return found if found is NONE or not optional else Optional(there=True, value=found)

    return item


def _at(holder: Any, key: Any) -> Any:
    if isinstance(holder, dict):
        if isinstance(key, list | dict) or key not in holder:
            raise CelError(f"no such key: {key}")
        return holder[key]
    if not isinstance(holder, list) or isinstance(key, bool) or not isinstance(key, int | float) or key != int(key):
        raise no_overload()
    if not 0 <= key < len(holder):
        raise CelError(f"index out of bounds: {int(key)}")
    return holder[int(key)]


def _call(node: CallExpression) -> Program:
    if node.target is None and node.function in _OPERATORS:
        left, right = (compiled(arg) for arg in node.args)
        return _operation(
            _OPERATORS[node.function], work.of_comparison if node.function in _COMPARING else work.of_sides, left, right
        )
    if node.target is None and node.function in ("&&", "||"):
        return _logic(node, stop=node.function == "||")
    match node.function, [compiled(arg) for arg in node.args]:
        case "!_", [of]:
            return lambda scope: not values.is_true(of(scope))
        case "-_", [of]:
            return lambda scope: values.negate(of(scope))
        case "?:", [condition, chosen, other]:
            return lambda scope: chosen(scope) if values.is_true(condition(scope)) else other(scope)
    return _function(node)


def _operation(
    operator: Callable[[Any, Any], Any], cost: Callable[[Any, Any, int], int], left: Program, right: Program
) -> Program:
    def call(scope: CelScope) -> Any:
        one, other = left(scope), right(scope)
        scope.did(cost(one, other, scope.left))
        return operator(one, other)

    return call


def _function(node: CallExpression) -> Program:
    function, args = function_of(node)
    assert function is not None, "the checker knows all functions"
    programs, apply = [compiled(arg) for arg in args], function.apply
    cost = work.PATTERN if function in PATTERN_FUNCTIONS and not isinstance(args[1], Literal) else 0

    def call(scope: CelScope) -> Any:
        given = [program(scope) for program in programs]
        scope.did(cost + work.of_arguments(given))
        try:
            return apply(*given)
        except (AttributeError, TypeError):
            raise no_overload() from None

    return call


def function_of(node: CallExpression) -> tuple[Function | None, tuple[Node, ...]]:
    """The function of a call and its arguments: a method's first argument is its target."""
    if node.target is None:
        return FUNCTIONS.get(node.function), node.args
    if isinstance(node.target, Name) and f"{node.target.name}.{node.function}" in FUNCTIONS:
        return FUNCTIONS[f"{node.target.name}.{node.function}"], node.args
    return METHODS.get(node.function), (node.target, *node.args)


def _logic(node: CallExpression, *, stop: bool) -> Program:
    sides = [compiled(arg) for arg in node.args]
    return lambda scope: _decided(((side, scope) for side in sides), stop=stop)


def _decided(parts: Iterable[tuple[Program, CelScope]], *, stop: bool) -> bool:
    """The first part that is `stop` decides; an error of another one counts only where none does."""
    failed: CelError | None = None
    for part, scope in parts:
        try:
            if values.is_true(part(scope)) is stop:
                return stop
        except CelError as error:
            failed = failed or error
    if failed is not None:
        raise failed
    return not stop


def _comprehension(node: Comprehension) -> Program:
    of, step = compiled(node.of), compiled(node.step)
    condition = None if node.condition is None else compiled(node.condition)
    names, cost = (
        node.names,
        work.ROUND + work.of_tree(node.step) + (0 if node.condition is None else work.of_tree(node.condition)),
    )

    def rounds(scope: CelScope) -> Iterator[tuple[CelScope, Any]]:
        holder = of(scope)
        if not isinstance(holder, list | dict):
            raise no_overload()
        for number, item in enumerate(holder):
            scope.did(cost)
            pair = (item, holder[item]) if isinstance(holder, dict) else (number, item)
            yield scope.bound(dict(zip(names, pair if len(names) == 2 else (item,), strict=True))), item

    match node.macro:
        case "all":
            return lambda scope: _decided(((step, inner) for inner, _ in rounds(scope)), stop=False)
        case "exists":
            return lambda scope: _decided(((step, inner) for inner, _ in rounds(scope)), stop=True)
        case "exists_one" | "existsOne":
            return lambda scope: sum(values.is_true(step(inner)) for inner, _ in rounds(scope)) == 1
        case "filter":
            return lambda scope: [item for inner, item in rounds(scope) if values.is_true(step(inner))]
    return lambda scope: [
        step(inner) for inner, _ in rounds(scope) if condition is None or values.is_true(condition(inner))
    ]


def unescaped(name: str) -> str:
    """A field's name from its CEL name: `__namespace__` is namespace, `a__dash__b` is a-b."""
    if name.startswith("__") and name.endswith("__") and len(name) > 4 and "__" not in name[2:-2]:
        return name[2:-2]
    for escaped, sign in (("__dot__", "."), ("__dash__", "-"), ("__slash__", "/"), ("__underscores__", "__")):
        name = name.replace(escaped, sign)
    return name


_COMPARING: Final = ("==", "!=", "in")
_OPERATORS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "==": values.equal,
    "!=": lambda left, right: not values.equal(left, right),
    "<": lambda left, right: values.compare(left, right) < 0,
    "<=": lambda left, right: values.compare(left, right) <= 0,
    ">": lambda left, right: values.compare(left, right) > 0,
    ">=": lambda left, right: values.compare(left, right) >= 0,
    "in": values.contains,
    "+": values.add,
    "-": values.subtract,
    "*": values.multiply,
    "/": values.divide,
    "%": values.remainder,
}
