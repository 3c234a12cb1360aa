"""The names that definitions have been accepted with, by group: who else has one is found without a look at the others."""

from __future__ import annotations

from mooring.apiserver.custom import lifecycle
from mooring.apiserver.custom.lifecycle import Taken
from mooring.apiserver.resource import Json

_Name = tuple[str, str, str]
"""group, sort, name"""


class AcceptedNames:
    """Of all definitions of a store."""

    def __init__(self) -> None:
        self._holders: dict[_Name, set[str]] = {}
        self._held: dict[str, frozenset[_Name]] = {}

    def put(self, definition: Json) -> None:
        """The names that the definition has now."""
        name, group = definition["metadata"]["name"], definition["spec"]["group"]
        now = frozenset((group, sort, held) for sort, held in lifecycle.names_of(definition))
        before = self._held.get(name, frozenset())
        for gone in before - now:
            self._release(gone, name)
        for new in now - before:
            self._holders.setdefault(new, set()).add(name)
        self._held[name] = now

    def drop(self, name: str) -> None:
        """The definition has gone."""
        for held in self._held.pop(name):
            self._release(held, name)

    def taken_from(self, definition: Json) -> Taken:
        """The names that others have."""
        own, group = {definition["metadata"]["name"]}, definition["spec"]["group"]
        return lambda sort, name: not self._holders.get((group, sort, name), own) <= own

    def _release(self, held: _Name, name: str) -> None:
        holders = self._holders[held]
        holders.discard(name)
        if not holders:
            del self._holders[held]
