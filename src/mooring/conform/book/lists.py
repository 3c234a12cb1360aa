"""CSI6xx: lists, page by page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mooring.conform.book.exchange import Exchange
from mooring.conform.book.past import Past
from mooring.conform.book.rule import Breach, Rule

ENDLESS = Rule(
    "CSI601",
    "a list never ends",
    "next_token MUST lead to another page, and the last page has none.",
    "listvolumes",
    "Sidecars ask page after page and never see the end: no drift is noticed, and the driver is busy.",
    "Leave next_token empty on the last page; make tokens of the place in the list.",
)
TOO_MANY = Rule(
    "CSI602",
    "a page has more entries than max_entries",
    "A page MUST NOT have more than max_entries entries, if that is above 0.",
    "listvolumes",
    "A page may be longer than a message can be, and then the whole list fails.",
    "Cut the page at max_entries, and answer with a next_token.",
)
TWICE = Rule(
    "CSI603",
    "a page has an entry twice",
    "A page SHOULD have each volume and snapshot once. What comes or goes between two pages may be seen twice.",
    "listvolumes",
    "A volume's published nodes are read from one of the two entries: the attacher may detach what is in use.",
    "List each id once.",
)
FILTER = Rule(
    "CSI604",
    "ListSnapshots ignores its filter",
    "With snapshot_id or source_volume_id, ListSnapshots MUST list only what matches; nothing, if nothing does.",
    "listsnapshots",
    "The snapshotter reads another snapshot's state for its own: a restore may begin too early.",
    "Compare snapshot_id and source_volume_id, and answer OK with no entries for ids that you don't know.",
)
LACKS = Rule(
    "CSI605",
    "a list is not what there is",
    "A list MUST have what the plugin knows about, on all its pages, and nothing that was deleted.",
    "listvolumes",
    "A volume that is not listed counts as gone: the attacher marks it detached, and `mooring orphans` can't "
    "see a leak.",
    "List from the place where volumes are kept, not from the memory of this process.",
)
BAD_TOKEN = Rule(
    "CSI606",
    "a token that is no token is taken",
    "A starting_token that the driver did not give MUST be refused with Aborted.",
    "listvolumes",
    "The sidecar goes on in the middle of another list, and takes it for the whole.",
    "Check the token's form, and answer Aborted: the caller begins anew.",
)

RULES: Final = (ENDLESS, TOO_MANY, TWICE, FILTER)
ASKED: Final = (LACKS, BAD_TOKEN)

PAGES_MAX: Final = 10_000


def judge(exchange: Exchange, past: Past) -> Iterator[Breach]:
    if not exchange.ok or not exchange.is_of("list_volumes", "list_snapshots"):
        return
    request, response = exchange.request, exchange.response
    if 0 < request.max_entries < len(response.entries):
        yield exchange.breaks(
            TOO_MANY, f"max_entries is {request.max_entries}, and the page has {len(response.entries)}"
        )
    if exchange.is_of("list_snapshots"):
        yield from _filtered(exchange)
    yield from _page(exchange, past)


def _filtered(exchange: Exchange) -> Iterator[Breach]:
    request = exchange.request
    for entry in exchange.response.entries:
        snapshot = entry.snapshot
        if request.snapshot_id and snapshot.snapshot_id != request.snapshot_id:
            yield exchange.breaks(
                FILTER, f"snapshot_id is {request.snapshot_id!r}, and {snapshot.snapshot_id!r} is listed"
            )
            return
        if request.source_volume_id and snapshot.source_volume_id != request.source_volume_id:
            told = f"{snapshot.snapshot_id!r} of volume {snapshot.source_volume_id!r}"
            yield exchange.breaks(FILTER, f"source_volume_id is {request.source_volume_id!r}, and {told} is listed")
            return


def _page(exchange: Exchange, past: Past) -> Iterator[Breach]:
    """A page belongs to the walk that waits for its token: callers that walk at the same time have different walks,
    and a page that nobody waits for says nothing.
    """
    token, next_token = exchange.request.starting_token, exchange.response.next_token
    ids = [
        one.volume.volume_id if exchange.is_of("list_volumes") else one.snapshot.snapshot_id
        for one in exchange.response.entries
    ]
    if again := next((one for number, one in enumerate(ids) if one and one in ids[:number]), ""):
        yield exchange.breaks(TWICE, f"{again!r} is listed a second time")
    walk = _walk_of(exchange)
    asked = past.walks.get((walk, token)) if token else frozenset()
    past.walks.drop((walk, token))
    if asked is None or not next_token:
        return
    asked |= {token}
    if next_token in asked or len(asked) > PAGES_MAX:
        yield exchange.breaks(
            ENDLESS, f"next_token is {next_token!r}, with which a page of this list was asked for already"
        )
    else:
        past.walks[walk, next_token] = asked


def _walk_of(exchange: Exchange) -> bytes:
    """The list that is walked through: the call and its filters."""
    copy = type(exchange.request)()
    copy.CopyFrom(exchange.request)
    for name in ("starting_token", "max_entries", "secrets"):
        if name in copy.DESCRIPTOR.fields_by_name:
            copy.ClearField(name)
    return f"{exchange.where}{exchange.rpc.path}".encode() + bytes(copy.SerializeToString(deterministic=True))
