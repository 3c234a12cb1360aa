"""Which PersistentVolume means which of the listed volumes, and which means none. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from mooring.api.core import NodeSelector
from mooring.api.matching import node_matches
from mooring.why.facts import Inventory, Object
from mooring.why.spelling import Spellings


@dataclasses.dataclass(frozen=True, slots=True)
class Placing:
    """owners: handle -> the object whose volume it is. alike: handle -> an object that may mean it.

    ghosts: objects that have lost their volume. unplaced: those of which it is not sure that their volume is among the listed by its
    right name, so that any volume without object could be theirs.
    """

    owners: Mapping[str, Object]
    alike: Mapping[str, Object]
    ghosts: tuple[Object, ...]
    unplaced: tuple[Object, ...]


def placing(inventory: Inventory, spellings: Spellings) -> Placing:
    """Takes the objects of both lists: one that has just gone may have been read just before."""
    known = {(found.name, found.handle): found for found in (*inventory.objects_before, *inventory.objects)}
    ours_last = sorted(known.values(), key=lambda found: found.driver == inventory.driver)
    owners = {handle: found for found in ours_last for handle in spellings.meant_by(found.handle)}
    alike = {handle: found for found in ours_last for handle in _alike(found, spellings) if handle not in owners}
    lost = _Lost(inventory, spellings)
    return Placing(owners, alike, lost.ghosts(alike.values()), lost.unplaced())


def _alike(found: Object, spellings: Spellings) -> Iterator[str]:
    """What its attributes name; and as long as its handle is not listed, what is named nearly so.

    Only as long: a volume that was tried in one place after another leaves one of the same name behind, and that one has leaked.
    """
    for word in found.words:
        yield from spellings.folded(word)
    if not spellings.meant_by(found.handle):
        for text in (found.handle, *found.words):
            yield from spellings.alike(text)


class _Lost:
    """The driver's objects whose handles are not listed."""

    def __init__(self, inventory: Inventory, spellings: Spellings) -> None:
        self._inventory = inventory
        self._far = _far(inventory, spellings)
        self._lost = [found for found in inventory.objects if found.driver == inventory.driver and not spellings.named_by(found.handle)]

    def ghosts(self, alike: Iterable[Object]) -> tuple[Object, ...]:
        """Those that were there before the driver was asked, and still are."""
        before = {found.name for found in self._inventory.objects_before}
        found_so = {found.name for found in alike}
        ghosts = [found for found in self._lost if found.name in before - found_so and found.name not in self._far]
        return tuple(sorted(ghosts, key=lambda found: found.name))

    def unplaced(self) -> tuple[Object, ...]:
        """Without those whose volume need not be listed, and whose handle is the driver's own: another spelling is not to be feared."""
        before = {found.name for found in self._inventory.objects_before}
        excused = {found.name for found in self._lost if found.provisioned and (found.name in self._far or found.name not in before)}
        return tuple(found for found in self._lost if found.name not in excused)


def _far(inventory: Inventory, spellings: Spellings) -> frozenset[str]:
    """Names of objects that can't be reached from the driver's place: a driver that serves one node lists that node's volumes only.

    None when the driver lists the volume of one of them: then it lists all.
    """
    ours = [found for found in inventory.objects if found.driver == inventory.driver]
    far = [found for found in ours if not _may_reach(found.nodes, inventory.place)]
    lists_all = any(spellings.named_by(found.handle) for found in far)
    return frozenset() if lists_all else frozenset(found.name for found in far)


def _may_reach(nodes: NodeSelector | None, place: Mapping[str, str]) -> bool:
    """False when each term asks for something else than the place says. What the place does not speak of is left out."""
    terms = (nodes.node_selector_terms if nodes is not None else None) or ()
    for term in terms:
        asked = tuple(one for one in term.match_expressions or () if one.key in place)
        reduced = msgspec.structs.replace(term, match_expressions=asked, match_fields=None)
        if not asked or node_matches(NodeSelector((reduced,)), place, ""):
            return True
    return not terms
