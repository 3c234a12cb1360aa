"""Masks: the part of an object that a cache keeps. The masks of several readers of one cache are joined.

    KEPT = slim(
        metadata=slim("deletion_timestamp", "finalizers", labels=only("zone")),
        spec=slim("csi", "access_modes"),
    )
    KEPT.of(pv)            the PersistentVolume with these fields, all others at their defaults
    KEPT | OTHERS          what two readers need

A mask keeps whole fields by name, and parts of a field by a mask of its own. Name, namespace, uid and resourceVersion
are always kept.

What a mask gives is of a type without the other fields, which take no memory. It reads, compares and is written like
one of the API's type, and `isinstance` takes it for one. But `structs.replace` knows no dropped field, and its hash is
another.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable, Hashable, Mapping, Sequence
from types import FunctionType
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from mooring.api.meta import ApiStruct, Object, ObjectMeta

T = TypeVar("T")
Obj = TypeVar("Obj", bound=Object)

_IDENTITY: Final = frozenset({"name", "namespace", "uid", "resource_version"})


class Part(Hashable, Protocol):
    """The part of a value that is kept."""

    def of(self, value: Any) -> Any:
        """The value without the fields that are not kept."""
        ...

    def __or__(self, other: Any) -> Any: ...


class Whole(msgspec.Struct, frozen=True):
    """Keeps everything."""

    def of(self, value: Any) -> Any:
        return value

    def __or__(self, other: Part) -> Part:
        return self


WHOLE: Final = Whole()


class Entries(msgspec.Struct, frozen=True):
    """Keeps the mapping's entries of these names; None when none is left."""

    names: frozenset[str]

    def of(self, value: Mapping[str, Any] | None) -> dict[str, Any] | None:
        return {name: value[name] for name in value if name in self.names} or None if value else None

    def __or__(self, other: Part) -> Part:
        return Entries(self.names | other.names) if isinstance(other, Entries) else WHOLE


class Items(msgspec.Struct, frozen=True):
    """Keeps a part of each item of a tuple that a test lets through; None when none is left. Joins with its equal; two
    others keep all.
    """

    test: Callable[[Any], bool]
    each: Part = WHOLE

    def of(self, value: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
        return tuple(self.each.of(item) for item in value if self.test(item)) or None if value else None

    def __or__(self, other: Part) -> Part:
        return self if other == self else WHOLE


@dataclasses.dataclass(frozen=True)
class Mask:
    """Keeps some fields of a struct whole, and parts of others. rest: all fields that it does not name are kept, too.

    A field that is not kept has its default value; it must have one.
    """

    whole: frozenset[str] = frozenset()
    parts: tuple[tuple[str, Part], ...] = ()
    rest: bool = False
    _pruners: dict[type, Callable[[Any], Any]] = dataclasses.field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __hash__(self) -> int:
        return self._hash

    @functools.cached_property
    def _hash(self) -> int:
        """The hash of the whole tree, worked out once: masks are joined for every event of a watch, and found by it."""
        return hash((self.whole, self.parts, self.rest))

    def of(self, value: T) -> T:
        """The struct, slim. None stays None."""
        if value is None:
            return value
        prune = self._pruners.get(type(value))
        if prune is None:
            prune = self._pruners[type(value)] = self._pruner(type(value))
        slimmed: T = prune(value)
        return slimmed

    def _pruner(self, struct: type[Any]) -> Callable[[Any], Any]:
        """The function that prunes this type, worked out once for each: every event of a watch goes through it."""
        whole = _whole_of(struct)
        masks, kept = (
            dict(self.parts),
            {*self.whole, *dict(self.parts), *(_IDENTITY if issubclass(whole, ObjectMeta) else ())},
        )
        names = tuple(name for name in whole.__struct_fields__ if self.rest or name in kept)
        slim_type = _without_others(whole, names)
        parts = tuple((at, masks[name]) for at, name in enumerate(names) if name in masks)
        if not parts:
            return lambda value: slim_type(*[getattr(value, name) for name in names])

        def prune(value: Any) -> Any:
            found = [getattr(value, name) for name in names]
            for at, part in parts:
                found[at] = part.of(found[at])
            return slim_type(*found)

        return prune

    def part(self, name: str) -> Part | None:
        """The part of this field that is kept, None for nothing."""
        return dict(self.parts).get(name, WHOLE if self.rest or name in self.whole else None)

    def __or__(self, other: Part) -> Part:
        return _joined(self, other)


@functools.lru_cache(maxsize=256)
def _joined(one: Mask, other: Part) -> Part:
    if not isinstance(other, Mask):
        return WHOLE
    joined: dict[str, Part] = {}
    for name in sorted({*one.whole, *dict(one.parts), *other.whole, *dict(other.parts)}):
        ours, theirs = one.part(name), other.part(name)
        part = theirs if ours is None else ours if theirs is None else ours | theirs
        assert part is not None, "one of them names it"
        joined[name] = part
    whole = frozenset(name for name, part in joined.items() if part == WHOLE)
    parts = tuple((name, part) for name, part in joined.items() if part != WHOLE)
    rest = one.rest or other.rest
    return Mask(frozenset() if rest else whole, parts, rest)


# -- types without the fields that are not kept

_wholes: Final[dict[type[msgspec.Struct], type[msgspec.Struct]]] = {}


def _whole_of(struct: type[msgspec.Struct]) -> type[msgspec.Struct]:
    """The API's type that a slim type stands for."""
    return _wholes.get(struct, struct)


@functools.cache
def _without_others(struct: type[msgspec.Struct], names: tuple[str, ...]) -> type[msgspec.Struct]:
    """A type that has only these fields of the struct's, in its order; the others are the type's own attributes, at
    their defaults.
    """
    fields = {field.name: field for field in msgspec.structs.fields(struct)}
    if len(names) == len(fields):
        return struct
    kept = [
        (name, fields[name].type, msgspec.field(name=fields[name].encode_name, **_given(fields[name])))
        for name in names
    ]
    dropped = {name: _default(field) for name, field in fields.items() if name not in names}
    own = {
        name: one for name, one in vars(struct).items() if isinstance(one, FunctionType | property | bool | frozenset)
    }
    namespace = {**dropped, **own, **_COMPARED, "__class__": property(lambda _: struct)}
    made = msgspec.defstruct(
        struct.__name__, kept, bases=(ApiStruct,), namespace=namespace, module=struct.__module__, frozen=True
    )
    _wholes[made] = struct
    return made


def _is_equal(one: Any, other: Any) -> Any:
    """Compare all fields of the API's type: an object that is kept with fewer fields than before has not changed
    for that.
    """
    if type(one) is type(other):
        return msgspec.Struct.__eq__(one, other)
    whole = _whole_of(type(one))
    if whole is not _whole_of(type(other)):
        return NotImplemented
    return all(getattr(one, name) == getattr(other, name) for name in whole.__struct_fields__)


def _differs(one: Any, other: Any) -> Any:
    found = _is_equal(one, other)
    return found if found is NotImplemented else not found


_COMPARED: Final = {"__eq__": _is_equal, "__ne__": _differs, "__hash__": msgspec.Struct.__hash__}


def _given(field: msgspec.structs.FieldInfo) -> dict[str, Any]:
    """The field's default, as `msgspec.field` takes it; nothing for a field that needs a value."""
    found = {"default": field.default, "default_factory": field.default_factory}
    return {name: value for name, value in found.items() if value is not msgspec.NODEFAULT}


def _default(field: msgspec.structs.FieldInfo) -> Any:
    """The field's default, one for all objects of a type: nobody changes what a cache holds."""
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    assert field.default is not msgspec.NODEFAULT, f"{field.name} has no default: it can't be dropped"
    return field.default


def slim(*fields: str, **parts: Part) -> Mask:
    """A mask. fields: kept whole. parts: kept in part."""
    return Mask(frozenset(fields), tuple(sorted(parts.items())))


def slimmed(**parts: Part) -> Mask:
    """A mask that keeps all fields, these in part."""
    return Mask(parts=tuple(sorted(parts.items())), rest=True)


def only(*names: str) -> Entries:
    """Keeps the labels or annotations of these names."""
    return Entries(frozenset(names))


def items(test: Callable[[Any], bool], each: Part = WHOLE) -> Items:
    """Keeps the items of a list that the test lets through. test: equal for equal meaning: a function of a module, or a
    frozen record.
    """
    return Items(test, each)


class Named(msgspec.Struct, frozen=True):
    """A test for `items`: true for the items of this name."""

    name: str

    def __call__(self, item: Any) -> bool:
        return bool(item.name == self.name)


NAME_ONLY: Final = slim(metadata=slim())
"""Keeps the object's identity, and nothing else."""

Keeps = Callable[[Obj], "Part | None"]
"""A reader's choice: the part of an object to keep, None for nothing of it. It may depend on the object."""


@functools.lru_cache(maxsize=256)
def always(part: Part) -> Callable[[Any], Part]:
    """The choice of this part for every object; equal parts give the very same choice."""
    return lambda obj: part


class Pruner(Generic[Obj]):
    """Prunes for all readers of a cache: an object keeps what any of them wants, and is left out when none wants it.

    choices: may grow until the first object comes.
    """

    def __init__(self, choices: Sequence[Callable[[Obj], Part | None]]) -> None:
        self._choices = choices

    def __call__(self, obj: Obj) -> Obj | None:
        """The part of the object that is kept; None for nothing of it."""
        wanted = [part for choice in self._choices if (part := choice(obj)) is not None]
        if not wanted:
            return None
        slimmed: Obj = functools.reduce(operator.or_, wanted).of(obj)
        return slimmed

    def keeps(self, obj: Obj) -> bool:
        """False for an object of which nothing is kept."""
        return any(choice(obj) is not None for choice in self._choices)


def changed(old: Object | None, new: Object | None, part: Part = WHOLE) -> bool:
    """True when the object came or went, or something of this part of it is not as it was; its version alone does not
    count.
    """
    if old is None or new is None or old.metadata.uid != new.metadata.uid:
        return old is not new
    before, after = part.of(old), part.of(new)
    meta = msgspec.structs.replace(before.metadata, resource_version=after.metadata.resource_version)
    return bool(msgspec.structs.replace(before, metadata=meta) != after)


def check(mask: Part, struct: type[msgspec.Struct]) -> None:
    """Asserts that each field that the mask names is there. For tests: a mask of a misspelt field would fail at the
    first object.
    """
    if not isinstance(mask, Mask):
        return
    known = {field.name: field.type for field in msgspec.structs.fields(struct)}
    for name in (*mask.whole, *dict(mask.parts)):
        assert name in known, f"{struct.__name__} has no field {name}"
