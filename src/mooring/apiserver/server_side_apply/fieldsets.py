"""Sets of fields: who owns what, as `metadata.managedFields` writes it down.

A path leads from the object's root by elements, each kept as the text that stands for it in fieldsV1:

    f:name      a field, or a key of a map
    k:{...}     an item of a list, by its keys
    v:...       an item of a list that is a set, by its value

A set is a tree: at each place the elements that belong to it themselves (members), and the sets below elements
(children).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from mooring.base.json_text import ANY_JSON

Path = tuple[str, ...]

DEPTH_MAX: Final = 200
_SELF: Final = "."
_KINDS: Final = ("f:", "k:", "v:", "i:")


class FieldSet:
    """Immutable. children: none of them empty."""

    __slots__ = ("children", "members")

    def __init__(self, members: frozenset[str] = frozenset(), children: Mapping[str, FieldSet] | None = None) -> None:
        self.members = members
        self.children = {element: child for element, child in (children or {}).items() if child}

    def __bool__(self) -> bool:
        return bool(self.members or self.children)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FieldSet) and self.members == other.members and self.children == other.children

    def __hash__(self) -> int:
        return hash((self.members, frozenset(self.children)))

    def __repr__(self) -> str:
        return f"FieldSet({', '.join(map(shown, self))})"

    def __iter__(self) -> Iterator[Path]:
        """The paths of all members, each place before what is below it."""
        for element in sorted(self.members | self.children.keys()):
            if element in self.members:
                yield (element,)
            for below in self.below(element):
                yield (element, *below)

    def below(self, element: str) -> FieldSet:
        """The set below an element, relative to it."""
        return self.children.get(element, NO_FIELDS)

    def __or__(self, other: FieldSet) -> FieldSet:
        children = {
            element: self.below(element) | other.below(element)
            for element in self.children.keys() | other.children.keys()
        }
        return FieldSet(self.members | other.members, children)

    def __and__(self, other: FieldSet) -> FieldSet:
        children = {
            element: self.below(element) & other.below(element)
            for element in self.children.keys() & other.children.keys()
        }
        return FieldSet(self.members & other.members, children)

    def __sub__(self, other: FieldSet) -> FieldSet:
        """Without the other's members; what lies below one of them stays."""
        children = {element: child - other.below(element) for element, child in self.children.items()}
        return FieldSet(self.members - other.members, children)

    def without(self, other: FieldSet) -> FieldSet:
        """Without the other's members and all that lies below them."""
        children = {
            element: child.without(other.below(element))
            for element, child in self.children.items()
            if element not in other.members
        }
        return FieldSet(self.members - other.members, children)

    def to_json(self) -> dict[str, Any]:
        """fieldsV1."""
        found: dict[str, Any] = {}
        for element in sorted(self.members | self.children.keys()):
            below = self.below(element).to_json()
            found[element] = {_SELF: {}, **below} if below and element in self.members else below
        return found


NO_FIELDS: Final = FieldSet()


class FieldSetBuilder:
    """A set that grows, path by path."""

    def __init__(self) -> None:
        self._members: set[str] = set()
        self._children: dict[str, FieldSetBuilder] = {}

    def add(self, path: Path) -> None:
        """path: not the root, which is in no set."""
        place = self
        for element in path[:-1]:
            place = place._children.setdefault(element, FieldSetBuilder())
        place._members.update(path[-1:])

    def done(self) -> FieldSet:
        return FieldSet(frozenset(self._members), {element: child.done() for element, child in self._children.items()})


def field_set(*paths: Path) -> FieldSet:
    builder = FieldSetBuilder()
    for path in paths:
        builder.add(path)
    return builder.done()


def from_json(value: Any, depth: int = 0) -> FieldSet:
    """The set of a fieldsV1. Raises ValueError for what is none."""
    if not isinstance(value, dict) or depth > DEPTH_MAX:
        raise ValueError("fieldsV1 holds maps in maps, and nothing else")
    members, children = set(), {}
    for element, below in value.items():
        if element == _SELF:
            continue
        _check(element)
        children[element] = from_json(below, depth + 1)
        if not below or _SELF in below:
            members.add(element)
    return FieldSet(frozenset(members), children)


def named(name: str) -> str:
    """The element of a field."""
    return f"f:{name}"


def keyed(keys: Mapping[str, Any]) -> str:
    """The element of a list's item with these keys."""
    return f"k:{_text(dict(sorted(keys.items())))}"


def valued(value: Any) -> str:
    """The element of a set's item."""
    return f"v:{_text(value)}"


def shown(path: Path) -> str:
    """A path for people: `.spec.drivers[name="a"].nodeID`."""
    return "".join(map(_shown, path))


def _check(element: str) -> None:
    kind, text = element[:2], element[2:]
    if kind not in _KINDS:
        raise ValueError(f"fieldsV1 has a key of an unknown kind: {element[:40]!r}")
    value = ANY_JSON.decode(text) if kind in ("k:", "v:") else None
    if kind == "k:" and not isinstance(value, dict):
        raise ValueError(f"fieldsV1 has an item without keys: {element[:40]!r}")


def _shown(element: str) -> str:
    kind, rest = element[:2], element[2:]
    if kind == "f:":
        return f".{rest}"
    if kind == "v:":
        return f"[={rest}]"
    if kind == "i:":
        return f"[{rest}]"
    return f"[{','.join(f'{name}={_text(value)}' for name, value in ANY_JSON.decode(rest).items())}]"


def _text(value: Any) -> str:
    return msgspec.json.encode(value, enc_hook=int).decode()  # custom kinds: whole numbers that came with a point
