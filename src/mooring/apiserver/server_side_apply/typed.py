"""Values by their shape: their fields, differences, merges, removals. Pure. ABSENT stands for a missing value, None for
a null one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from mooring.apiserver.codecs.scalars import equal_json
from mooring.apiserver.server_side_apply import gotexts
from mooring.apiserver.server_side_apply.fieldsets import FieldSet, FieldSetBuilder, Path, keyed, named, shown, valued
from mooring.apiserver.server_side_apply.shapes import ANYTHING, Form, Shape, resolved


class _Absent:
    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent()
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {"string": (str,), "boolean": (bool,), "numeric": (int, float)}
_TELLERS: Final = {"string": gotexts.syntax, "numeric": gotexts.type_name}
_TOLD: Final = {"": "any scalar", "numeric": "numeric (int or float)"}


class Untyped(ValueError):
    """A value does not have its shape. The text has one line for each reason."""


class Comparison(msgspec.Struct, frozen=True):
    """Fields of the new value that weren't there, those whose value is another one, and those that have gone."""

    added: FieldSet
    modified: FieldSet
    removed: FieldSet

    def without(self, ignored: FieldSet) -> Comparison:
        return Comparison(self.added.without(ignored), self.modified.without(ignored), self.removed.without(ignored))


def check(shape: Shape, value: Any) -> None:
    """Raises Untyped for a value that is of another shape, or has an item twice."""
    wrong = list(_wrong(shape, value, ()))
    if wrong:
        raise Untyped(wrong[0] if len(wrong) == 1 else "errors:\n" + "\n".join(f"  {text}" for text in wrong))


def has_paths(shape: Shape, value: Any) -> bool:
    """False where an item of a list has nothing that tells it from the others, so that nobody can own a part of it."""
    shape = resolved(shape, value)
    if isinstance(value, dict):
        return all(has_paths(shape.inner(name) or ANYTHING, inner) for name, inner in value.items())
    if not isinstance(value, list) or shape.form is not Form.LIST:
        return True
    item = _item_shape(shape)
    return all((shape.atomic or not _no_element(shape, one)) and has_paths(item, one) for one in value)


def fields_of(shape: Shape, value: Mapping[str, Any]) -> FieldSet:
    """The fields that a value says something about."""
    builder = FieldSetBuilder()
    _collect(shape, value, (), builder)
    return builder.done()


def compare(shape: Shape, old: Mapping[str, Any], new: Mapping[str, Any]) -> Comparison:
    added, modified, removed = FieldSetBuilder(), FieldSetBuilder(), FieldSetBuilder()
    _Comparer(added, modified, removed).compare(shape, old, new, ())
    return Comparison(added.done(), modified.done(), removed.done())


def merge(shape: Shape, live: Any, config: Any) -> Any:
    """The live value with what the config says laid over it."""
    if config is ABSENT:
        return live
    shape = resolved(shape, config if config is not None else live)
    kind = dict if shape.form is Form.MAP else list
    if live is ABSENT or shape.form is Form.SCALAR or _is_leaf(shape, live, config, kind):
        return config
    if shape.form is Form.MAP:
        return _merge_maps(shape, live if isinstance(live, dict) else {}, config if isinstance(config, dict) else {})
    return _merge_lists(shape, live if isinstance(live, list) else [], config if isinstance(config, list) else [])


def remove(shape: Shape, value: Any, gone: FieldSet) -> Any:
    """The value without those fields. A map or list that is left without anything becomes null."""
    shape = resolved(shape, value)
    if isinstance(value, dict):
        kept = {
            name: remove(shape.inner(name) or shape, inner, gone.below(named(name)))
            if gone.below(named(name))
            else inner
            for name, inner in value.items()
            if named(name) not in gone.members
        }
        return kept or None
    if not isinstance(value, list) or shape.atomic:
        return value
    items = [
        remove(_item_shape(shape), item, gone.below(element)) if gone.below(element) else item
        for element, item in zip(elements_of(shape, value), value, strict=True)
        if element not in gone.members
    ]
    return items or None


def with_named(shape: Shape, fields: FieldSet) -> FieldSet:
    """The set with all declared fields in it below which it has something."""
    shape = resolved(shape, {})
    children = {}
    members = set(fields.members)
    for element, child in fields.children.items():
        declared = shape.member(element[2:]) if element.startswith("f:") and shape.form is Form.MAP else None
        if declared is not None:
            members.add(element)
        children[element] = with_named(declared or shape.other() or shape, child)
    return FieldSet(frozenset(members), children)


def elements_of(shape: Shape, items: list[Any]) -> list[str]:
    """The identity of each item of a list."""
    return [_element(shape, item) for item in items]


def _element(shape: Shape, item: Any) -> str:
    if not shape.keys:
        return valued(item)
    given = item if isinstance(item, dict) else {}
    return keyed(
        {key: given.get(key, shape.defaults.get(key)) for key in shape.keys if key in given or key in shape.defaults}
    )


def _item_shape(shape: Shape) -> Shape:
    """A definition may have made something else of a list that is stored."""
    return shape.other() or ANYTHING


def _wrong(shape: Shape, value: Any, path: Path) -> Iterator[str]:
    shape = resolved(shape, value)
    if value is None:
        return
    if shape.form is Form.MAP:
        yield from _wrong_map(shape, value, path)
    elif shape.form is Form.LIST:
        yield from _wrong_list(shape, value, path)
    elif isinstance(value, dict | list) or (
        shape.type
        and (not isinstance(value, _TYPES[shape.type]) or (shape.type == "numeric" and isinstance(value, bool)))
    ):
        tell = _TELLERS.get(shape.type, gotexts.plain)
        yield f"{shown(path)}: expected {_TOLD.get(shape.type, shape.type)}, got {tell(value)}"


def _wrong_map(shape: Shape, value: Any, path: Path) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{shown(path)}: expected map, got {gotexts.plain(value)}"
        return
    for name, inner in value.items():
        place, below = (*path, named(name)), shape.inner(name)
        if below is None:
            yield f"{shown(place)}: field not declared in schema"
        else:
            yield from _wrong(below, inner, place)


def _wrong_list(shape: Shape, value: Any, path: Path) -> Iterator[str]:
    if not isinstance(value, list):
        yield f"{shown(path)}: expected list, got {gotexts.plain(value)}"
        return
    seen: set[str] = set()
    for number, item in enumerate(value):
        if shape.atomic:
            yield from _wrong(_item_shape(shape), item, (*path, f"i:{number}"))
            continue
        why = _no_element(shape, item)
        if why:
            yield f"{shown(path)}: element {number}: {why}"
            continue
        element = _element(shape, item)
        if element in seen:
            yield f"{shown(path)}: duplicate entries for key {shown((element,))}"
        seen.add(element)
        yield from _wrong(_item_shape(shape), item, (*path, element))


def _no_element(shape: Shape, item: Any) -> str:
    """The reasons that an item can't be told from the others."""
    if not shape.keys:
        match item:
            case dict():
                return "associative list without keys has an element that's a map type"
            case list():
                return "not supported: associative list with lists as elements"
            case None:
                return "associative list without keys has an element that's an explicit null"
        return ""
    if not isinstance(item, dict):
        return f"associative list with keys may not have {'a null element' if item is None else 'non-map elements'}"
    if any(key in item or key in shape.defaults for key in shape.keys):
        return ""
    keys = " ".join(f'"{key}"' for key in shape.keys)
    return (
        f"associative list with keys has an element that omits all key fields [{keys}] (and doesn't have default "
        "values for any key fields)"
    )


def _collect(shape: Shape, value: Any, path: Path, builder: FieldSetBuilder) -> None:
    shape = resolved(shape, value)
    if shape.atomic or shape.form is Form.SCALAR:
        if path:
            builder.add(path)
    elif isinstance(value, dict):
        for name, inner in value.items():
            place, declared = (*path, named(name)), shape.member(name)
            _collect(shape.inner(name) or ANYTHING, inner, place, builder)
            if declared is None or inner is None or inner == {}:
                builder.add(place)
    elif isinstance(value, list):
        for element, items in _by_element(shape, value).items():
            if len(items) == 1:
                _collect(_item_shape(shape), items[0], (*path, element), builder)
            builder.add((*path, element))


def _is_leaf(shape: Shape, left: Any, right: Any, kind: type) -> bool:
    """True where two values are compared and merged as a whole: also when both are empty, so that empty stays empty and
    null null.
    """
    return shape.atomic or not (_has_content(left, kind) or _has_content(right, kind))


def _has_content(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and bool(value)


def _shapes(shape: Shape, old: Any, new: Any) -> list[Shape]:
    """The shapes by which two values are compared: both where nothing is declared and a map has become a list."""
    if shape.form is not Form.ANY:
        return [shape]
    found = [resolved(shape, {} if value is None else value) for value in (old, new) if value is not ABSENT]
    return found[:1] if found[0] is found[-1] else found


class _Comparer(msgspec.Struct, frozen=True):
    added: FieldSetBuilder
    modified: FieldSetBuilder
    removed: FieldSetBuilder

    def compare(self, shape: Shape, old: Any, new: Any, path: Path) -> None:
        """old, new: not both ABSENT."""
        assert old is not ABSENT or new is not ABSENT
        for taken in _shapes(shape, old, new):
            self._compare_as(taken, old, new, path)
        if old is ABSENT:
            self.added.add(path)
        elif new is ABSENT:
            self.removed.add(path)

    def _compare_as(self, shape: Shape, old: Any, new: Any, path: Path) -> None:
        if shape.form is Form.MAP and not _is_leaf(shape, old, new, dict):
            self._maps(shape, old if isinstance(old, dict) else {}, new if isinstance(new, dict) else {}, path)
        elif shape.form is Form.LIST and not _is_leaf(shape, old, new, list):
            self._lists(shape, old if isinstance(old, list) else [], new if isinstance(new, list) else [], path)
        elif old is not ABSENT and new is not ABSENT and not equal_json(old, new):
            self.modified.add(path)

    def _maps(self, shape: Shape, old: dict[str, Any], new: dict[str, Any], path: Path) -> None:
        for name in {**old, **new}:
            before, after = old.get(name, ABSENT), new.get(name, ABSENT)
            inner = shape.inner(name) or ANYTHING
            self.compare(inner, before, after, (*path, named(name)))

    def _lists(self, shape: Shape, old: list[Any], new: list[Any], path: Path) -> None:
        before, after = _by_element(shape, old), _by_element(shape, new)
        for element in {**before, **after}:
            left, right, place = before.get(element, []), after.get(element, []), (*path, element)
            if len(left) <= 1 and len(right) <= 1:
                self.compare(_item_shape(shape), left[0] if left else ABSENT, right[0] if right else ABSENT, place)
            elif not left:
                self.added.add(place)
            elif not right:
                self.removed.add(place)
            elif not equal_json(left, right):
                self.modified.add(place)


def _by_element(shape: Shape, items: list[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for element, item in zip(elements_of(shape, items), items, strict=True):
        found.setdefault(element, []).append(item)
    return found


def _merge_maps(shape: Shape, live: dict[str, Any], config: dict[str, Any]) -> dict[str, Any]:
    merged = dict(live)
    for name, value in config.items():
        merged[name] = merge(shape.inner(name) or ANYTHING, live.get(name, ABSENT), value)
    return merged


def _merge_lists(shape: Shape, live: list[Any], config: list[Any]) -> list[Any]:
    """The items of both. Those of the config in its order; live ones that it doesn't name keep their place among those
    that it does.
    """
    item, wanted = _item_shape(shape), _by_element(shape, config)
    there = _by_element(shape, live)
    merged: list[Any] = []
    waiting = list(wanted)
    shared = [element for element in wanted if element in there]
    done: set[str] = set()

    def take(element: str) -> None:
        before = there.get(element, [])
        merged.append(merge(item, before[0] if len(before) == 1 else ABSENT, wanted[element][0]))
        waiting.remove(element)
        done.add(element)
        if shared and shared[0] == element:
            shared.pop(0)

    for element, value in zip(elements_of(shape, live), live, strict=True):
        if element not in wanted:
            merged.append(value)
        elif element not in done and shared and shared[0] == element:
            while waiting[0] != element:
                take(waiting[0])
            take(element)
    while waiting:
        take(waiting[0])
    return merged
