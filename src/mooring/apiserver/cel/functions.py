"""CEL's functions and methods by name, with the types of arguments ("dyn": any) and results. A method's target is its
first argument.
"""

from __future__ import annotations

import itertools
import string
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

import msgspec

from mooring.apiserver.cel import conversions as to
from mooring.apiserver.cel import values
from mooring.apiserver.cel.values import NONE, CelError, Optional, Type, no_overload
from mooring.apiserver.regexp.programs import go_regexp
from mooring.apiserver.regexp.syntax import RegexpError


class Function(msgspec.Struct, frozen=True):
    """takes: the types of the arguments, one tuple for each way to call it."""

    apply: Callable[..., Any]
    takes: tuple[tuple[str, ...], ...]
    gives: str


def _size(value: Any) -> int:
    if not isinstance(value, str | bytes | list | dict):
        raise no_overload()
    return len(value)


def _text(apply: Callable[..., Any]) -> Callable[..., Any]:
    """For functions of texts and whole numbers: checks the types that the checker could not know."""

    def checked(*args: Any) -> Any:
        if not isinstance(args[0], str) or not all(
            isinstance(arg, str | int) and not isinstance(arg, bool) for arg in args
        ):
            raise no_overload()
        result = apply(*args)
        return values.fitting(result)

    return checked


def _regexp(apply: Callable[..., Any]) -> Callable[..., Any]:
    """For functions that may be given a pattern that is none."""

    def tried(*args: Any) -> Any:
        try:
            return apply(*args)
        except RegexpError as error:
            raise CelError(str(error)) from error

    return _text(tried)


def _found(text: str, pattern: str) -> str:
    return next(go_regexp(pattern).find_all(text), "")


def _all_found(text: str, pattern: str, count: int = -1) -> list[str]:
    return list(itertools.islice(go_regexp(pattern).find_all(text), None if count < 0 else count))


def _char_at(text: str, place: int) -> str:
    if not 0 <= place <= len(text):
        raise CelError(f"index out of range: {place}")
    return text[place : place + 1]


def _index_of(text: str, part: str, start: int = 0) -> int:
    return text.find(part, start)


def _last_index_of(text: str, part: str, start: int | None = None) -> int:
    return text.rfind(part) if start is None else text.rfind(part, 0, start + len(part))


def _substring(text: str, start: int, end: int | None = None) -> str:
    end = len(text) if end is None else end
    if not 0 <= start <= end <= len(text):
        raise CelError(f"invalid substring range. start: {start}, end: {end}")
    return text[start:end]


def _split(text: str, by: str, count: int = -1) -> list[str]:
    if count == 0:
        return []
    return list(text) if not by else text.split(by, count - 1 if count > 0 else -1)


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    if len(text) * max(1, len(new)) > values.SIZE_MAX:
        raise CelError("the text becomes too long")
    return text.replace(old, new, count)


def _join(items: Any, by: str = "") -> str:
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise no_overload()
    if sum(map(len, items)) + len(by) * len(items) > values.SIZE_MAX:
        raise CelError("the text becomes too long")
    return by.join(items)


def _list(items: Any) -> list[Any]:
    if not isinstance(items, list):
        raise no_overload()
    return items


def _is_sorted(items: Any) -> bool:
    found = _list(items)
    return all(values.compare(left, right) <= 0 for left, right in itertools.pairwise(found))


def _sum(items: Any) -> Any:
    found = _list(items)
    if found and all(isinstance(item, str) for item in found):
        return _join(found)
    total: Any = found[0] if found else 0
    for item in found[1:]:
        total = values.add(total, item)
    return total


def _extreme(sign: int, name: str) -> Callable[[Any], Any]:
    def extreme(items: Any) -> Any:
        found = _list(items)
        if not found:
            raise CelError(f"{name} called on empty list")
        best = found[0]
        for item in found[1:]:
            best = item if values.compare(item, best) * sign > 0 else best
        return best

    return extreme


def _either_index(of: Any, item: Any, *rest: Any) -> int:
    if not isinstance(of, list):
        return int(_text(_index_of)(of, item, *rest))
    return next((number for number, other in enumerate(of) if values.equal(other, item)), -1)


def _either_last_index(of: Any, item: Any, *rest: Any) -> int:
    if not isinstance(of, list):
        return int(_text(_last_index_of)(of, item, *rest))
    return max((number for number, other in enumerate(of) if values.equal(other, item)), default=-1)


def _covers(left: Any, right: Any) -> bool:
    return all(values.contains(item, _list(left)) for item in _list(right))


def _value(optional: Optional) -> Any:
    if not optional.there:
        raise CelError("optional.none() dereference")
    return optional.value


def _of_amounts(apply: Callable[[Decimal, Decimal], Any]) -> Callable[[Any, Any], Any]:
    def checked(left: Any, right: Any) -> Any:
        if not isinstance(left, to.Amount) or not isinstance(right, to.Amount | int):
            raise no_overload()
        return apply(left.value, right.value if isinstance(right, to.Amount) else Decimal(right))

    return checked


_S, _I, _L = "string", "int", "list"
_LOWER: Final = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_UPPER: Final = str.maketrans(string.ascii_lowercase, string.ascii_uppercase)

FUNCTIONS: Final[Mapping[str, Function]] = {
    "size": Function(_size, ((_S,), ("bytes",), (_L,), ("map",)), _I),
    "type": Function(lambda value: Type(values.type_name(value)), (("dyn",),), "type"),
    "dyn": Function(lambda value: value, (("dyn",),), "dyn"),
    "int": Function(to.to_int, (("dyn",),), _I),
    "uint": Function(to.to_int, (("dyn",),), _I),
    "double": Function(to.to_double, (("dyn",),), "double"),
    "string": Function(to.to_string, (("dyn",),), _S),
    "bool": Function(to.to_bool, (("dyn",),), "bool"),
    "bytes": Function(to.to_bytes, (("dyn",),), "bytes"),
    "timestamp": Function(to.to_timestamp, (("dyn",),), "timestamp"),
    "duration": Function(to.to_duration, (("dyn",),), "duration"),
    "quantity": Function(to.to_quantity, ((_S,),), "quantity"),
    "isQuantity": Function(to.is_quantity, (("dyn",),), "bool"),
    "optional.of": Function(lambda value: Optional(there=True, value=value), (("dyn",),), "optional"),
    "optional.none": Function(lambda: NONE, ((),), "optional"),
    "sets.contains": Function(_covers, ((_L, _L),), "bool"),
    "sets.equivalent": Function(lambda left, right: _covers(left, right) and _covers(right, left), ((_L, _L),), "bool"),
    "sets.intersects": Function(
        lambda left, right: any(values.contains(item, _list(left)) for item in _list(right)), ((_L, _L),), "bool"
    ),
}
"""By name, with the namespace where there is one."""

METHODS: Final[Mapping[str, Function]] = {
    "size": Function(_size, ((_S,), ("bytes",), (_L,), ("map",)), _I),
    "contains": Function(_text(lambda text, part: part in text), ((_S, _S),), "bool"),
    "startsWith": Function(_text(lambda text, part: text.startswith(part)), ((_S, _S),), "bool"),
    "endsWith": Function(_text(lambda text, part: text.endswith(part)), ((_S, _S),), "bool"),
    "matches": Function(_regexp(lambda text, pattern: go_regexp(pattern).search(text)), ((_S, _S),), "bool"),
    "find": Function(_regexp(_found), ((_S, _S),), _S),
    "findAll": Function(_regexp(_all_found), ((_S, _S), (_S, _S, _I)), _L),
    "charAt": Function(_text(_char_at), ((_S, _I),), _S),
    "indexOf": Function(_either_index, ((_S, _S), (_S, _S, _I), (_L, "dyn")), _I),
    "lastIndexOf": Function(_either_last_index, ((_S, _S), (_S, _S, _I), (_L, "dyn")), _I),
    "lowerAscii": Function(_text(lambda text: text.translate(_LOWER)), ((_S,),), _S),
    "upperAscii": Function(_text(lambda text: text.translate(_UPPER)), ((_S,),), _S),
    "replace": Function(_text(_replace), ((_S, _S, _S), (_S, _S, _S, _I)), _S),
    "split": Function(_text(_split), ((_S, _S), (_S, _S, _I)), _L),
    "substring": Function(_text(_substring), ((_S, _I), (_S, _I, _I)), _S),
    "trim": Function(_text(lambda text: text.strip()), ((_S,),), _S),
    "join": Function(_join, ((_L,), (_L, _S)), _S),
    "isSorted": Function(_is_sorted, ((_L,),), "bool"),
    "sum": Function(_sum, ((_L,),), "dyn"),
    "min": Function(_extreme(-1, "min"), ((_L,),), "dyn"),
    "max": Function(_extreme(1, "max"), ((_L,),), "dyn"),
    "hasValue": Function(lambda optional: optional.there, (("optional",),), "bool"),
    "value": Function(_value, (("optional",),), "dyn"),
    "orValue": Function(
        lambda optional, other: optional.value if optional.there else other, (("optional", "dyn"),), "dyn"
    ),
    "or": Function(
        lambda optional, other: optional if optional.there else other, (("optional", "optional"),), "optional"
    ),
    "isGreaterThan": Function(_of_amounts(lambda left, right: left > right), (("quantity", "quantity"),), "bool"),
    "isLessThan": Function(_of_amounts(lambda left, right: left < right), (("quantity", "quantity"),), "bool"),
    "compareTo": Function(
        _of_amounts(lambda left, right: (left > right) - (left < right)), (("quantity", "quantity"),), _I
    ),
    "add": Function(_of_amounts(lambda left, right: to.Amount(left + right)), (("quantity", "dyn"),), "quantity"),
    "sub": Function(_of_amounts(lambda left, right: to.Amount(left - right)), (("quantity", "dyn"),), "quantity"),
}
PATTERN_FUNCTIONS: Final = tuple(METHODS[name] for name in ("matches", "find", "findAll"))
"""Their second argument is a regular expression."""
