"""Which PersistentVolume means which of the listed volumes, and which means none: one volume has several names.
Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from mooring.api.core import NodeSelector
from mooring.api.matching import node_matches
from mooring.api.migration import UNSPECIFIED
from mooring.inspect.facts import Inventory, Object

_DASHES: Final = str.maketrans("", "", "-_")


def plain(text: str) -> str:
    """The common part of a name's spellings: drivers change the case of letters and drop dashes."""
    return text.casefold().translate(_DASHES)


class HandleMatcher:
    """The handles that a driver lists, to be found by other spellings of them."""

    def __init__(self, handles: Iterable[str]) -> None:
        self._exact = frozenset(handles)
        self._folded: dict[str, list[str]] = defaultdict(list)
        self._tails: dict[str, list[str]] = defaultdict(list)
        for handle in sorted(self._exact):
            self._folded[handle.casefold()].append(handle)
            self._tails[_tail(handle)].append(handle)

    def meant_by(self, handle: str) -> list[str]:
        """Listed handles that this one surely means: itself, or those that fit what a translated in-tree handle leaves
        open.
        """
        if handle in self._exact:
            return [handle]
        if UNSPECIFIED not in handle:
            return []
        return [listed for listed in self.alike(handle) if _handle_fits(handle, listed)]

    def folded(self, handle: str) -> list[str]:
        """The known handles that differ in the case of letters at most."""
        return self._folded.get(handle.casefold(), [])

    def named_by(self, handle: str) -> list[str]:
        """The handles that this one clearly means: itself, else others that differ in the case of letters."""
        return self.meant_by(handle) or self.folded(handle)

    def alike(self, handle: str) -> list[str]:
        """The handles with the same last part of the path, in any case of letters."""
        tail = _tail(handle)
        return self._tails.get(tail, []) if tail else []


def _tail(handle: str) -> str:
    return handle.rstrip("/").rpartition("/")[2].casefold()


def _handle_fits(handle: str, listed: str) -> bool:
    parts, others = handle.split("/"), listed.split("/")
    return len(parts) == len(others) and all(
        part in (UNSPECIFIED, other) for part, other in zip(parts, others, strict=True)
    )


class Placement(msgspec.Struct, frozen=True):
    """owners: handle -> the object of that volume. alike: handle -> an object that may mean it.

    ghosts: objects that have lost their volume. unplaced: objects whose volume may be listed under another name, so
    that any volume without object could be theirs.
    """

    owners: Mapping[str, Object]
    alike: Mapping[str, Object]
    ghosts: tuple[Object, ...]
    unplaced: tuple[Object, ...]


def placing(inventory: Inventory, matcher: HandleMatcher) -> Placement:
    """Takes the objects of both lists: one that has just gone may have been read just before."""
    known = {(found.name, found.handle): found for found in (*inventory.objects_before, *inventory.objects)}
    ours_last = sorted(known.values(), key=lambda found: found.driver == inventory.driver)
    owners = {handle: found for found in ours_last for handle in matcher.meant_by(found.handle)}
    alike = {handle: found for found in ours_last for handle in _alike_handles(found, matcher) if handle not in owners}
    lost = _Lost(inventory, matcher)
    return Placement(owners, alike, lost.ghosts(alike.values()), lost.unplaced())


def _alike_handles(found: Object, matcher: HandleMatcher) -> Iterator[str]:
    """Volumes that its attributes name; and as long as its handle is not listed, volumes of nearly its name.

    Only that long: a volume that was tried in several places leaves others of its name behind, and those have leaked.
    """
    for word in found.words:
        yield from matcher.folded(word)
    if not matcher.meant_by(found.handle):
        for text in (found.handle, *found.words):
            yield from matcher.alike(text)


class _Lost:
    """The driver's objects whose handles are not listed. _far: names of those that it need not list, for they are of
    other nodes.
    """

    def __init__(self, inventory: Inventory, matcher: HandleMatcher) -> None:
        ours = [found for found in inventory.objects if found.driver == inventory.driver]
        listed = [found for found in ours if matcher.named_by(found.handle)]
        far = {found.name for found in ours if not may_reach(found.nodes, inventory.place)}
        lists_all = any(found.name in far for found in listed)
        self._before = {found.name for found in inventory.objects_before}
        self._lost = [found for found in ours if not matcher.named_by(found.handle)]
        self._far = frozenset() if lists_all else frozenset(far)
        self._lists_as_made = any(found.provisioned for found in listed)

    def ghosts(self, alike: Iterable[Object]) -> tuple[Object, ...]:
        """The objects that were there before the driver was asked, and still are."""
        missed = self._before - self._far - {found.name for found in alike}
        return tuple(sorted((found for found in self._lost if found.name in missed), key=lambda found: found.name))

    def unplaced(self) -> tuple[Object, ...]:
        """The lost objects, without provisioned ones that need not be listed, if the driver lists others by the handle
        that it gave them.
        """
        return tuple(found for found in self._lost if not self._is_excused(found))

    def _is_excused(self, found: Object) -> bool:
        need_not = found.name in self._far or found.name not in self._before
        return need_not and found.provisioned and self._lists_as_made


def may_reach(nodes: NodeSelector | None, place: Mapping[str, str]) -> bool:
    """False when each term asks for another value than the place has. Keys that the place lacks are left out."""
    terms = (nodes.node_selector_terms if nodes is not None else None) or ()
    for term in terms:
        asked = tuple(one for one in term.match_expressions or () if one.key in place)
        reduced = msgspec.structs.replace(term, match_expressions=asked, match_fields=None)
        if not asked or node_matches(NodeSelector((reduced,)), place, ""):
            return True
    return not terms
