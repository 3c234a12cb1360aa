"""What a driver has said and done so far, as far as its calls show it: what the next answers are compared with.

Everything is bounded: what was told longest ago is forgotten first, and no rule is broken by something that is
forgotten. After an answer that leaves open what happened (a deadline, a lost connection) the thing that the call worked
on is forgotten, too.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Generic, TypeVar

import msgspec

from mooring.conform.book.exchange import Exchange
from mooring.csi import capabilities

K = TypeVar("K")
V = TypeVar("V")

KEPT_MAX: Final = 20_000


class Bounded(Generic[K, V]):
    """A mapping of at most KEPT_MAX entries."""

    def __init__(self) -> None:
        self._entries: OrderedDict[K, V] = OrderedDict()

    def __setitem__(self, key: K, value: V) -> None:
        self._entries[key] = value
        self._entries.move_to_end(key)
        if len(self._entries) > KEPT_MAX:
            self._entries.popitem(last=False)

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[K]:
        return iter(self._entries)

    def get(self, key: K) -> V | None:
        return self._entries.get(key)

    def drop(self, key: K) -> None:
        self._entries.pop(key, None)

    def drop_where(self, matches: Callable[[K], bool]) -> None:
        for key in [key for key in self._entries if matches(key)]:
            del self._entries[key]


class Made(msgspec.Struct, frozen=True):
    """A request that the driver carried out, and its first answer. identity: the id in it, "" where it has none."""

    request: Any
    response: Any
    identity: str = ""


class Aborted(msgspec.Struct, frozen=True):
    """So many times in a row. since_s: the end of the first, None where nobody tells the time."""

    times: int
    since_s: float | None


class Things(msgspec.Struct):
    """What the driver made of one kind. by_name: as it was asked for. names: by the id that the driver gave it. gone:
    the ids whose deletion was answered with OK.
    """

    by_name: Bounded[str, Made] = msgspec.field(default_factory=Bounded)
    names: Bounded[str, str] = msgspec.field(default_factory=Bounded)
    gone: Bounded[str, None] = msgspec.field(default_factory=Bounded)

    def made(self, name: str, made: Made) -> None:
        if name not in self.by_name:
            self.by_name[name] = made
        self.names[made.identity] = name
        self.gone.drop(made.identity)

    def deleted(self, identity: str, *, ok: bool) -> None:
        """ok: the driver says so; it may also be at work on it."""
        if ok:
            self.gone[identity] = None
        name = self.names.get(identity)
        self.names.drop(identity)
        made = self.by_name.get(name) if name is not None else None
        if name is not None and made is not None and made.identity == identity:
            self.by_name.drop(name)


class Past:
    """plugin, controller, group, node: capabilities as numbers, None until the driver told them; node: by the node's
    name.
    """

    def __init__(self) -> None:
        self.names: dict[str, str] = {}  # the driver's, by where it answered
        self.topology_prefix = ""  # of the first key that had one
        self.expansions: frozenset[int] | None = None
        self.plugin: frozenset[int] | None = None
        self.controller: frozenset[int] | None = None
        self.group: frozenset[int] | None = None
        self.node: dict[str, frozenset[int]] = {}
        self.node_ids: dict[str, str] = {}
        self.volumes, self.snapshots, self.groups = Things(), Things(), Things()
        self.published: Bounded[tuple[str, str], Made] = Bounded()
        self.unpublished: Bounded[tuple[str, str], None] = Bounded()
        self.on_node: Bounded[tuple[str, str, str], Made] = Bounded()  # where, the call's method, the path
        self.off_node: Bounded[tuple[str, str, str], None] = Bounded()
        self.mounted_elsewhere: dict[str, str] = {}  # by where: what was mounted in place of a target_path
        #: Walks through lists: by the list and the token of the page that the walk asks for next, the tokens with which
        #: it has asked.
        self.walks: Bounded[tuple[bytes, str], frozenset[str]] = Bounded()
        self.aborted: Bounded[tuple[str, str, str], Aborted] = (
            Bounded()
        )  # one after another, by where, call and subject

    def note(self, exchange: Exchange) -> None:
        """To be called when the exchange has been judged."""
        if exchange.ok and not self.topology_prefix:
            self.topology_prefix = next(
                (found for one in topologies(exchange) for key in one if (found := topology_prefix(key))), ""
            )
        note = _NOTES.get(exchange.rpc.attribute)
        if note is not None:
            note(self, exchange)


def topologies(exchange: Exchange) -> Iterator[Mapping[str, str]]:
    """The segments of each topology in an answer that was OK."""
    if exchange.is_of("create_volume"):
        volumes = [exchange.response.volume]
    elif exchange.is_of("list_volumes"):
        volumes = [entry.volume for entry in exchange.response.entries]
    elif exchange.is_of("node_get_info"):
        yield exchange.response.accessible_topology.segments
        return
    else:
        return
    for volume in volumes:
        yield from (one.segments for one in volume.accessible_topology)


def topology_prefix(key: str) -> str:
    """`topology.csi.example.com` of `topology.csi.example.com/zone`; "" where a key has none."""
    return key.rpartition("/")[0]


def _plugin_info(past: Past, exchange: Exchange) -> None:
    if exchange.ok:
        past.names.setdefault(exchange.where, exchange.response.name)


def _plugin_capabilities(past: Past, exchange: Exchange) -> None:
    if exchange.ok:
        past.plugin = capabilities.services(exchange.response)
        past.expansions = capabilities.volume_expansions(exchange.response)


def _controller_capabilities(past: Past, exchange: Exchange) -> None:
    if exchange.ok:
        past.controller = capabilities.rpcs(exchange.response)


def _group_capabilities(past: Past, exchange: Exchange) -> None:
    if exchange.ok:
        past.group = capabilities.rpcs(exchange.response)


def _node_capabilities(past: Past, exchange: Exchange) -> None:
    if exchange.ok:
        past.node[exchange.where] = capabilities.rpcs(exchange.response)


def _node_info(past: Past, exchange: Exchange) -> None:
    if exchange.ok and exchange.response.node_id:
        past.node_ids.setdefault(exchange.where, exchange.response.node_id)


def _created(things: Things, exchange: Exchange, identity: str) -> None:
    if exchange.ok and identity:
        things.made(exchange.request.name, Made(exchange.request, exchange.response, identity))


def _create_volume(past: Past, exchange: Exchange) -> None:
    _created(past.volumes, exchange, exchange.response.volume.volume_id if exchange.ok else "")


def _create_snapshot(past: Past, exchange: Exchange) -> None:
    _created(past.snapshots, exchange, exchange.response.snapshot.snapshot_id if exchange.ok else "")


def _create_group(past: Past, exchange: Exchange) -> None:
    _created(past.groups, exchange, exchange.response.group_snapshot.group_snapshot_id if exchange.ok else "")


def _delete_volume(past: Past, exchange: Exchange) -> None:
    if not exchange.refused:
        past.volumes.deleted(exchange.request.volume_id, ok=exchange.ok)
        past.unpublished.drop_where(
            lambda key: key[0] == exchange.request.volume_id
        )  # its attachments are CSI307's from now on


def _delete_snapshot(past: Past, exchange: Exchange) -> None:
    if not exchange.refused:
        past.snapshots.deleted(exchange.request.snapshot_id, ok=exchange.ok)


def _delete_group(past: Past, exchange: Exchange) -> None:
    if not exchange.refused:
        past.groups.deleted(exchange.request.group_snapshot_id, ok=exchange.ok)
        for identity in exchange.request.snapshot_ids:
            past.snapshots.deleted(identity, ok=exchange.ok)


def _expand(past: Past, exchange: Exchange) -> None:
    """The volume has another size from now on: its first answer can't be compared with the next ones."""
    name = past.volumes.names.get(exchange.request.volume_id)
    if not exchange.refused and name is not None:
        past.volumes.by_name.drop(name)


def _publish(past: Past, exchange: Exchange) -> None:
    key = exchange.request.volume_id, exchange.request.node_id
    past.unpublished.drop(key)
    if exchange.ok and past.published.get(key) is None:
        past.published[key] = Made(exchange.request, exchange.response)


def _unpublish(past: Past, exchange: Exchange) -> None:
    volume, node = exchange.request.volume_id, exchange.request.node_id
    if not exchange.refused:
        past.published.drop_where(lambda key: key[0] == volume and node in ("", key[1]))
    if exchange.ok:
        past.unpublished[volume, node] = None


def _on_node(path: str) -> Callable[[Past, Exchange], None]:
    def note(past: Past, exchange: Exchange) -> None:
        key = exchange.where, path, getattr(exchange.request, path)
        past.off_node.drop(key)
        if exchange.ok and past.on_node.get(key) is None:
            past.on_node[key] = Made(exchange.request, exchange.response)
        if exchange.ok and exchange.target is not None and exchange.target.elsewhere and not exchange.target.is_mount:
            past.mounted_elsewhere.setdefault(exchange.where, exchange.target.elsewhere[0])

    return note


def _off_node(path: str) -> Callable[[Past, Exchange], None]:
    def note(past: Past, exchange: Exchange) -> None:
        key = exchange.where, path, getattr(exchange.request, path)
        if not exchange.refused:
            past.on_node.drop(key)
        if exchange.ok:
            past.off_node[key] = None

    return note


_NOTES: Final[dict[str, Callable[[Past, Exchange], None]]] = {
    "get_plugin_info": _plugin_info,
    "get_plugin_capabilities": _plugin_capabilities,
    "controller_get_capabilities": _controller_capabilities,
    "group_controller_get_capabilities": _group_capabilities,
    "node_get_capabilities": _node_capabilities,
    "node_get_info": _node_info,
    "create_volume": _create_volume,
    "delete_volume": _delete_volume,
    "controller_expand_volume": _expand,
    "controller_modify_volume": _expand,
    "controller_publish_volume": _publish,
    "controller_unpublish_volume": _unpublish,
    "create_snapshot": _create_snapshot,
    "delete_snapshot": _delete_snapshot,
    "create_volume_group_snapshot": _create_group,
    "delete_volume_group_snapshot": _delete_group,
    "node_stage_volume": _on_node("staging_target_path"),
    "node_unstage_volume": _off_node("staging_target_path"),
    "node_publish_volume": _on_node("target_path"),
    "node_unpublish_volume": _off_node("target_path"),
}
