"""The API server as a port.

Everything that decides sees Kubernetes through `Cluster`: over HTTP in production (`kube/client/http.py`), in process
on the embedded server's store (`apiserver/local.py`). Methods raise `ApiError` and its classes (`kube/errors.py`) and
nothing else: `NotServed` for a kind that the server does not have, whatever was asked.
A write whose answer was lost raises `Unreachable` or `ServerError`: it may have happened.
"""

from __future__ import annotations

import abc
import enum
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from mooring.api.meta import Kind
from mooring.base import effects

T = TypeVar("T")


class PatchType(enum.Enum):
    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class Patch(msgspec.Struct, frozen=True):
    """A change to one object. body: a list of operations for JSON, a mapping for the others."""

    type: PatchType
    body: Any


class EventType(enum.Enum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


class WatchEvent(msgspec.Struct, Generic[T], frozen=True):
    """One line of a watch. object: None only for BOOKMARK. initial_events_end: the bookmark that closes
    sendInitialEvents.
    """

    type: EventType
    object: T | None
    resource_version: str
    initial_events_end: bool = False


class UnreadItem(NamedTuple):
    """An item of a list that is there and can't be read, as far as it can be named; "" for what can't be read
    either.
    """

    namespace: str = ""
    name: str = ""
    uid: str = ""


class Page(msgspec.Struct, Generic[T], frozen=True):
    """A list, or one page of it."""

    items: tuple[T, ...]
    #: A valid start for a watch.
    resource_version: str
    #: "" on the last page.
    continue_token: str = ""
    #: Items that are not among these. Code that concludes something from a missing object has to look there.
    unread: tuple[UnreadItem, ...] = ()


class Row(NamedTuple):
    """What the API server prints of an object, as `kubectl get` shows it. cells: texts for people, by their column:
    `PV`, `Node`.

    A list of a kind that is `decoded_as(Row)` has rows for items: a seventh of the bytes, a fifth of the server's time.
    """

    cells: Mapping[str, Any]


class Selection(msgspec.Struct, frozen=True):
    """The scope of a list or watch. namespace: None is all namespaces."""

    namespace: str | None = None
    label_selector: str = ""
    field_selector: str = ""


EVERYTHING = Selection()


class Verb(enum.StrEnum):
    """The requests except watches."""

    LIST = "list"
    GET = "get"
    CREATE = "create"
    REPLACE = "replace"
    PATCH = "patch"
    POST = "post"
    DELETE = "delete"
    SERVES = "serves"


_READS: Final = (Verb.LIST, Verb.GET, Verb.SERVES)


class Request(msgspec.Struct, frozen=True):
    """One question to the API server, with everything that the verbs of `Cluster` take. Their docstrings say what each
    field means.

    name: "" where it is about many, or the server is to give one. body: JSON values for CREATE, REPLACE and POST; a
    Patch for PATCH.
    """

    verb: Verb
    kind: Kind[Any]
    name: str = ""
    namespace: str = ""
    subresource: str = ""
    body: Any = None
    selection: Selection = EVERYTHING
    limit: int = 0
    continue_token: str = ""
    resource_version: str = ""
    uid: str = ""
    grace_period_s: int | None = None
    propagation: str = ""
    field_manager: str = ""
    force: bool = False

    @property
    def writes(self) -> bool:
        """True for what may change something."""
        return self.verb not in _READS

    @property
    def place(self) -> str:
        """The object as a path: `volumeattachments/va-1/status`."""
        return "/".join(filter(None, (self.kind.plural, self.name, self.subresource)))


class Cluster(abc.ABC):
    """The API server. An implementation has two methods, `ask` and `watch`; so has a wrapper around another.

    The verbs, one coroutine each, are made of `ask`; the kind says the resource and the type of the answer.
    """

    @abc.abstractmethod
    async def ask(self, request: Request) -> Any:
        """The answer: a Page for LIST, True or False for SERVES, None for POST and DELETE, else the object. Raises
        ApiError.
        """

    @abc.abstractmethod
    def watch(
        self,
        kind: Kind[T],
        selection: Selection = EVERYTHING,
        *,
        resource_version: str,
        timeout_s: float = 0.0,
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """Changes after resource_version, with bookmarks, until the server ends the stream (the generator just ends).

        timeout_s: asks the server to end it by then; 0 leaves it to the server. Raises Gone when the version is too
        old, Unreachable when the connection breaks. Close it with `contextlib.aclosing`.
        """

    async def list(
        self,
        kind: Kind[T],
        selection: Selection = EVERYTHING,
        *,
        limit: int = 0,
        continue_token: str = "",
        resource_version: str = "",
    ) -> Page[T]:
        """limit: objects per page, 0 for all. resource_version: "" for the newest state, "0" for any. Raises Gone for
        an old token.
        """
        page: Page[T] = await self.ask(
            Request(
                Verb.LIST,
                kind,
                selection=selection,
                limit=limit,
                continue_token=continue_token,
                resource_version=resource_version,
            )
        )
        return page

    async def get(self, kind: Kind[T], name: str, namespace: str = "") -> T:
        """Raises NotFound."""
        found: T = await self.ask(Request(Verb.GET, kind, name, namespace))
        return found

    async def create(
        self, kind: Kind[T], body: Mapping[str, Any] | T, namespace: str = "", *, of: tuple[str, str] | None = None
    ) -> T:
        """body: the whole object, as JSON values or as a struct. of: the object and its sub-resource that answers, as a
        service account's `token`; what it answers is of this kind. Raises AlreadyExists, Invalid.
        """
        values: Mapping[str, Any] = body if isinstance(body, Mapping) else msgspec.to_builtins(body)
        name, subresource = of or (_name_in(values), "")
        request = Request(Verb.CREATE, kind, name, namespace, subresource, values)
        made: T = await self.ask(request)
        effects.note(request)
        return made

    async def replace(self, kind: Kind[T], body: Mapping[str, Any], namespace: str = "", *, subresource: str = "") -> T:
        """PUT of a whole object: never of one that was decoded in part. Raises Conflict, NotFound, Invalid."""
        request = Request(Verb.REPLACE, kind, _name_in(body), namespace, subresource, body)
        replaced: T = await self.ask(request)
        effects.note(request)
        return replaced

    async def patch(self, kind: Kind[T], name: str, patch: Patch, namespace: str = "", *, subresource: str = "") -> T:
        """Raises NotFound, Conflict, Invalid (also for a JSON patch whose test failed)."""
        request = Request(Verb.PATCH, kind, name, namespace, subresource, patch)
        patched: T = await self.ask(request)
        effects.note(request)
        return patched

    async def apply(
        self,
        kind: Kind[T],
        body: Mapping[str, Any],
        namespace: str = "",
        *,
        manager: str,
        force: bool = False,
        subresource: str = "",
    ) -> T:
        """Server-side apply: make the object have these fields, and create it where there is none.

        body: the fields that the manager wants to own; those that it owned and leaves out here are removed. force:
        takes over fields that other managers own with other values. Raises Conflict for them without it; Invalid.
        """
        values = {"apiVersion": kind.api_version, "kind": kind.name, **body}
        request = Request(
            *(Verb.PATCH, kind, _name_in(body), namespace, subresource, Patch(PatchType.APPLY, values)),
            field_manager=manager,
            force=force,
        )
        applied: T = await self.ask(request)
        effects.note(request)
        return applied

    async def post(
        self, kind: Kind[T], name: str, subresource: str, body: Mapping[str, Any], namespace: str = ""
    ) -> None:
        """POST to a sub-resource of an object, as `binding` of a Pod: asked, and not stored. Raises NotFound, Conflict,
        Invalid.
        """
        request = Request(Verb.POST, kind, name, namespace, subresource, body)
        await self.ask(request)
        effects.note(request)

    async def delete(
        self,
        kind: Kind[T],
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
        grace_period_s: int | None = None,
        propagation: str = "",
    ) -> None:
        """uid, resource_version: preconditions, "" for none. propagation: Background, Foreground, Orphan, "" for the
        default. Raises NotFound, Conflict.
        """
        request = Request(
            Verb.DELETE,
            kind,
            name,
            namespace,
            uid=uid,
            resource_version=resource_version,
            grace_period_s=grace_period_s,
            propagation=propagation,
        )
        await self.ask(request)
        effects.note(request)

    async def serves(self, kind: Kind[Any]) -> bool:
        """True where discovery has the kind in this version. Needs no rights. Raises ApiError when that is unknown."""
        is_served: bool = await self.ask(Request(Verb.SERVES, kind))
        return is_served


def _name_in(body: Mapping[str, Any]) -> str:
    return str((body.get("metadata") or {}).get("name") or "")


def compare_versions(arriving: str, known: str) -> int:
    """-1, 0 or 1: the arriving version is older, the same, newer. "" is the oldest; a version that is no number counts
    as newer.
    """
    if arriving == known:
        return 0
    if not arriving:
        return -1
    if arriving.isdecimal() and known.isdecimal():
        left, right = int(arriving), int(known)
        return (left > right) - (left < right)
    return 1
