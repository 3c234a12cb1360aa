"""Reasons, declared in one line each.

@reason('waits for PersistentVolume "{pv_name}"')
class VolumeMissing:
    pv_name: str

str(VolumeMissing("pv-1")) == 'waits for PersistentVolume "pv-1"'
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast, dataclass_transform

import msgspec

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def reason(text: str) -> Callable[[type[T]], type[T]]:
    """Makes a class of facts a frozen, slotted reason whose str() is the text, with {fields} and {properties} of the
    record in it.

    A class with a `__str__` of its own keeps that. Raises AttributeError at the first str() for a name that the
    record lacks: a test that shows each reason once finds it.
    """

    def made(cls: type[T]) -> type[T]:
        if "__str__" not in cls.__dict__:
            cls.__str__ = lambda self: text.format_map(_Fields(self))  # type: ignore[method-assign]
        body = {name: value for name, value in cls.__dict__.items() if name not in ("__dict__", "__weakref__")}
        return cast("type[T]", msgspec.StructMeta(cls.__name__, (msgspec.Struct,), body, frozen=True))

    return made


class _Fields(dict[str, object]):
    """A record's attributes as a mapping, for format_map."""

    def __init__(self, record: object) -> None:
        self._record = record

    def __getitem__(self, name: str) -> object:
        return getattr(self._record, name)


def name_of(because: object) -> str:
    """The name of a reason, for people: one for all its facts."""
    return type(because).__name__
