"""The pages of the journal of intents: Lease objects with the encoded intents. Pure.

A Lease is the one kind that a sidecar may write in its own namespace wherever it stands for election, so a swap of
images needs no new rights; and the journal is in fact leased: its holder alone writes there. The entries are JSON,
compressed, in one annotation. Secrets are named there and never included.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from mooring.api.names import sanitised
from mooring.base.clock import Instant, rfc3339_micro, seconds_of
from mooring.base.json_text import JsonDecoder, check_depth
from mooring.sidecars.provisioner.model.intent import ClaimIntents, Intent, IntentState, OwnVolume

INTENTS: Final = "mooring.dev/intents"
"""The label of each page, with the journal's name, and its annotation, with the entries."""

DRIVER: Final = "mooring.dev/driver"
PAGES: Final = "mooring.dev/pages"
"""The annotation of page 0 that says how many pages count."""

PAGE_BYTES_MAX: Final = 96 * 1024
"""The most bytes of packed entries in one page: each begin and each end of an intent writes a whole page."""

ENTRY_BYTES_MAX: Final = 180 * 1024
"""The most bytes of one packed entry, alone in its page. As base64 they stay below the 256 KiB of all annotations."""

PAGES_MAX: Final = 256
PAGES_MANY: Final = 192
"""From here on the log says that the journal fills up."""
_NAME_LENGTH_MAX: Final = 40
_PACKING: Final = 1  # quick: intents resemble each other, so that the first level does most of it
_VERSION: Final = "1:"

_encoder: Final = msgspec.json.Encoder()
_decoder: Final = JsonDecoder[ClaimIntents](ClaimIntents)
_page_decoder: Final = JsonDecoder[tuple[msgspec.Raw, ...]](tuple[msgspec.Raw, ...])


class UnreadablePage(Exception):
    """The page cannot be decoded: foreign, of a later version, or damaged."""


class _Owner(msgspec.Struct, frozen=True):
    """The part of an entry that no version changes."""

    uid: str


_owner_decoder: Final = JsonDecoder[_Owner](_Owner)


class _FormerEntry(Intent, frozen=True):
    """An entry as the last version wrote it: the current request, with the former ones in it. To be read until 0.2."""

    unattended: bool = False
    #: The handle of the claim's own volume; "" once that is deleted, None for none.
    stored_handle: str | None = None
    doubts: tuple[_FormerEntry, ...] = ()

    def now(self) -> ClaimIntents:
        state = IntentState.DELETING if self.dying_handle else IntentState.UNKNOWN
        requests = (*(one._request(IntentState.REFUSED) for one in self.doubts), self._request(state))
        without = OwnVolume.UNSEEN if self.unattended else OwnVolume.NONE
        own = {None: without, "": OwnVolume.DELETED}.get(self.stored_handle, OwnVolume.STORED)
        return ClaimIntents(self.uid, requests, own)

    def _request(self, state: IntentState) -> Intent:
        fields = {name: getattr(self, name) for name in Intent.__struct_fields__}
        return Intent(**{**fields, "state": state})


_former_decoder: Final = JsonDecoder[_FormerEntry](_FormerEntry)


class JournalLocation(msgspec.Struct, frozen=True):
    """The namespace and label of a journal."""

    namespace: str
    driver: str
    #: The node of a provisioner that serves one, "" for one that serves all.
    node_name: str = ""

    @property
    def label(self) -> str:
        """The label of its pages. The digest keeps drivers apart whose names are equal once they are sanitised."""
        return _label(self.driver, self.node_name)

    def page_name(self, number: int) -> str:
        return f"{self.label}-intents-{number}"


@functools.lru_cache(maxsize=16)
def _label(driver: str, node_name: str) -> str:
    clean = sanitised(driver).lower()[:_NAME_LENGTH_MAX].strip("-")
    return f"{clean}-{hashlib.sha256(f'{driver}/{node_name}'.encode()).hexdigest()[:8]}"


def encoded(entry: ClaimIntents) -> bytes:
    return _encoder.encode(entry.left())


def packed_bytes(text: bytes) -> int:
    """The size that an entry has in a page at the most: beside others that resemble it, it packs better. To
    pack it takes a twentieth of the processor's work for its volume.
    """
    return len(zlib.compress(text, _PACKING))


def packed(entries: Iterable[bytes]) -> str:
    """The entries as a page has them, "" for none."""
    text = b",".join(entries)
    return _VERSION + base64.b64encode(zlib.compress(b"[" + text + b"]", _PACKING)).decode() if text else ""


def entries_of(lease: Mapping[str, Any]) -> tuple[ClaimIntents, ...]:
    """The entries of a page. Raises UnreadablePage, also where a single one can't be read."""
    return tuple(map(decoded, texts_of(lease).values()))


def texts_of(lease: Mapping[str, Any]) -> dict[str, bytes]:
    """The entries of a page by uid, as they are written there. Raises UnreadablePage."""
    text = ((lease.get("metadata") or {}).get("annotations") or {}).get(INTENTS, "")
    if not text:
        return {}
    try:
        if not text.startswith(_VERSION):
            raise UnreadablePage("of another version")
        page = zlib.decompress(base64.b64decode(text[len(_VERSION) :], validate=True))
        entries = _page_decoder.decode(page)
        return {_owner_decoder.decode(entry).uid: bytes(entry) for entry in entries}
    except (zlib.error, ValueError) as error:
        raise UnreadablePage(str(error)) from error


def decoded(text: bytes) -> ClaimIntents:
    """Raises UnreadablePage for an entry of a later version."""
    try:
        try:
            entry = _decoder.decode(text)
        except msgspec.ValidationError:
            entry = _former_decoder.decode(text).now()
        for one in entry.requests:  # they hold JSON as text, which is decoded when its turn comes
            check_depth(one.request)
            check_depth(one.volume)
        if not entry.requests or any(one.state is IntentState.CLOSED for one in entry.requests):
            raise UnreadablePage("no request is open")
        return entry.left()
    except ValueError as error:
        raise UnreadablePage(str(error)) from error


def count_of(first: Mapping[str, Any] | None) -> int:
    """The number of pages that count, from page 0; 0 when it has none."""
    text = str((((first or {}).get("metadata") or {}).get("annotations") or {}).get(PAGES, ""))
    return min(int(text), PAGES_MAX) if text.isdecimal() else 0


def holder_of(lease: Mapping[str, Any]) -> str:
    return str((lease.get("spec") or {}).get("holderIdentity") or "")


def written_wall_s(lease: Mapping[str, Any]) -> float:
    """The time when the page was last written; 0 when it is unknown."""
    return seconds_of(str((lease.get("spec") or {}).get("renewTime")))


def page_body(
    place: JournalLocation,
    number: int,
    before: Mapping[str, Any] | None,
    holder: str,
    entries: Iterable[bytes] | None,
    wall_s: float,
    *,
    count: int = 0,
    owner: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The whole Lease to write. before: as it was read, None for a new one; fields of others in it stay. entries: None
    keeps them.

    count: on page 0, of the pages that count. owner: of a new one, None for nobody.

    The server is told to keep no record of who set which field: one process writes there, and keeping it takes a tenth
    of a write's time.
    """
    body = {**(before or {}), "apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
    meta = {
        **(body.get("metadata") or {"name": place.page_name(number), "namespace": place.namespace}),
        "managedFields": [{}],
    }
    meta["labels"] = {**(meta.get("labels") or {}), INTENTS: place.label}
    notes = {**(meta.get("annotations") or {}), DRIVER: place.driver}
    if count:
        notes[PAGES] = str(count)
    if owner is not None:
        meta["ownerReferences"] = [owner]
    if entries is not None:
        notes.pop(INTENTS, None)
        if text := packed(entries):
            notes[INTENTS] = text
    meta["annotations"] = notes
    body["metadata"] = meta
    spec = body.get("spec") or {}
    taken = before is not None and holder_of(before) != holder
    transitions = int(spec.get("leaseTransitions") or 0) + taken
    body["spec"] = {
        **spec,
        "holderIdentity": holder,
        "renewTime": rfc3339_micro(wall_s),
        "leaseTransitions": transitions,
    }
    return body


UNKNOWN: Final = b""
"""Stored in place of an entry whose write was not answered."""


class JournalLease(msgspec.Struct, eq=False):
    """One page of the journal."""

    number: int
    #: The Lease as last read or written, None before its creation.
    lease: dict[str, Any] | None = None
    #: Page 0 was written after its creation, and says so.
    counts: bool = False
    #: The encoded entries that are to be stored, by the claim's uid.
    entries: dict[str, bytes] = msgspec.field(default_factory=dict)
    #: The entries that are stored, or may be; `UNKNOWN` where an answer was lost.
    stored: dict[str, bytes] = msgspec.field(default_factory=dict)
    #: The packed size of each entry in bytes, by the claim's uid.
    packed: dict[str, int] = msgspec.field(default_factory=dict)
    #: Bytes of all entries.
    size: int = 0
    #: Not written since it last changed.
    stale: bool = False
    #: Written since we hold the journal.
    ours: bool = False
    written_at: Instant = 0.0
    #: The page can't be decoded, so its entries are left alone.
    unreadable: bool = False

    def put(self, uid: str, text: bytes, packed_bytes: int) -> None:
        self.drop(uid)
        self.entries[uid], self.packed[uid] = text, packed_bytes
        self.size += packed_bytes
        self.stale = True

    def drop(self, uid: str) -> None:
        if self.entries.pop(uid, None) is not None:
            self.size -= self.packed.pop(uid)
            self.stale = True

    def has_space(self, uid: str, packed_bytes: int) -> bool:
        """True when the page has room for an entry of this size in place of the uid's present one."""
        others = self.size - self.packed.get(uid, 0)
        return not self.unreadable and (others == 0 or others + packed_bytes <= PAGE_BYTES_MAX)


LATER: Final = (
    "the volume's creation was begun by a later version of this provisioner and is written down in its form: start "
    "that one"
)

UNATTENDED_S: Final = 600.0
"""After that time the history of a volume is unknown: another program may have made it, and its user kept it."""
