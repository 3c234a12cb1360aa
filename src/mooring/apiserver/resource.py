"""A kind as the server serves it: its names, and the rules that differ from kind to kind.

A `Resource` is a table row with functions in it; `rules/` has one per kind. Objects are whole JSON dicts in the stored version.
Rules run on dicts that have been decoded by the kind's schema, so types are right and required maps are there.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Protocol

import msgspec

from mooring.api import names
from mooring.api.meta import Key
from mooring.apiserver import deletion
from mooring.apiserver.codecs.schema import Message, Messages
from mooring.apiserver.deletion import DeleteOptions
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.users import RequestUser, Tokens

Json = dict[str, Any]

_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_CUSTOM_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
"""The same in the order in which the real server tells them."""
WARNINGS_MAX: Final = 80
"""Of an answer: clients in Python read none of more than 100 headers. Differs from kube-apiserver, which bounds letters alone."""


class OtherObjects(Protocol):
    """The other objects, as admission sees them: read only. path: group, version, plural.

    word: stands in the JSON of those that are looked for; others need not be decoded.
    """

    def get(self, path: tuple[str, str, str], name: str, namespace: str = "") -> Json | None: ...

    def all(self, path: tuple[str, str, str], namespace: str | None = None, word: bytes = b"") -> Iterator[Json]: ...


class Shown(Protocol):
    """An object in the shape of its kind."""

    @property
    def uid(self) -> str: ...

    def whole(self) -> Json: ...


class StoredObjects(Protocol):
    """The store, as an answer reads it and writes to it."""

    def resource(self, group: str, version: str, plural: str) -> Resource | None: ...

    def get(self, resource: Resource, key: Key) -> Shown: ...

    def amend(
        self, resource: Resource, key: Key, change: Callable[[Json], None], now: float, *, dry_run: bool = False
    ) -> None: ...

    def delete(self, resource: Resource, key: Key, now: float, options: DeleteOptions) -> object: ...

    def new_id(self) -> str: ...


class ApiCall(msgspec.Struct, frozen=True):
    """A request to be answered. resource, key: its object; for a kind without objects the kind itself, and a key without name.

    body: decoded by the asked kind's shape, and written to. tokens: None where nobody can sign.
    """

    store: StoredObjects
    resource: Resource
    key: Key
    body: Json
    now: float
    user: RequestUser
    dry_run: bool = False
    tokens: Tokens | None = None


Answer = Callable[[ApiCall], Json]
"""A function of the call: it reads and writes through the store, and does nothing else."""


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """A sub-resource beside /status. Exactly one of asks, part, prepare and connect is set.

    asks: POST of another kind that is answered and not kept: /binding, /eviction, /token. prepare: GET, PUT and PATCH of the object itself,
    of which the endpoint writes one part: /resize, /finalize. part: the same of another kind that shows a part of the object: /scale.
    connect: the endpoint of a machine that is not there: /log, /exec; raises, or has nothing to say. Its body is the query.

    verbs: for discovery. kind: for discovery without `asks`; "" for the object's own. prepare: undoes changes that the endpoint may not
    make. validate: all problems.
    """

    name: str
    verbs: tuple[str, ...]
    kind: str = ""
    asks: Resource | None = None
    part: Resource | None = None
    prepare: Callable[[Json, Json, float], None] | None = None
    validate: Callable[[Json, Json], Iterable[FieldCause]] = lambda _new, _old: ()
    connect: Callable[[ApiCall], None] | None = None

    def __post_init__(self) -> None:
        ways = (self.asks, self.part, self.prepare, self.connect)
        assert sum(way is not None for way in ways) == 1, f"{self.name} is exactly one kind of sub-resource"


class Status(enum.Enum):
    """The fields that a kind's /status endpoint may write."""

    NONE = "there is no such endpoint"
    ONLY = "status alone"
    WITH_METADATA = "status, and labels, annotations, finalizers"


def _keep_status(new: Json, old: Json, _now: float) -> None:
    new.pop("status", None)
    if "status" in old:
        new["status"] = old["status"]


class StorageVersion(msgspec.Struct, frozen=True, eq=False):
    """The conversion of a kind whose objects are stored in another shape.

    storage: their path in the store; kinds with the same one show the same objects. decode: from the stored shape. encode: to it; the
    stored object is given too, None at creation. Both may write to their arguments. Rules run on the stored shape.
    """

    storage: tuple[str, str, str]
    decode: Callable[[Json], Json]
    encode: Callable[[Json, Json | None], Json]


class CustomColumn(msgspec.Struct, frozen=True):
    """A column of a table. cell: its value for an object, None without one."""

    name: str
    type: str
    format: str
    description: str
    priority: int
    cell: Callable[[Json], Any]


class ScalePaths(msgspec.Struct, frozen=True):
    """Where the scale sub-resource finds its numbers, as steps into the object. selector: () where there is none."""

    spec_replicas: tuple[str, ...]
    status_replicas: tuple[str, ...]
    selector: tuple[str, ...] = ()


class Custom(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A custom kind. schema: the openAPIV3Schema of its definition. columns: after the name; () for the usual ones.

    deprecation: the warning of a deprecated version, "" for others.
    """

    definition: str
    singular: str
    list_kind: str
    schema: Json
    columns: tuple[CustomColumn, ...] = ()
    scale: ScalePaths | None = None
    deprecation: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Resource:
    """One kind as served. `now`: seconds since the epoch; `new` and `old`: whole objects, `new` may be written to.

    default: fills in absent fields, on every write. prepare_*: resets fields that the endpoint may not write. validate*: all problems;
    validate_create: those of creation beside validate. admit: additions of admission at creation, unvalidated. admit_valid: raises to
    refuse a valid new object. admit_update: raises to refuse a valid update of the main resource. fields: for field selectors beside
    metadata.*. indexed: the one that leads straight to the objects. warnings: for the Warning header, old is None
    at creation. holds: something beside finalizers keeps a deleted object.
    delete: the object that a deletion leaves, None when nothing holds it. undeletable: names of objects that stay. ttl_s: objects vanish
    that long after their last write. storage_version: for kinds that are stored in another shape. decode: replaces the message's decoder
    for custom kinds; from a body without apiVersion and kind and a list for the paths of unknown fields. custom: the definition's part of a
    custom kind, whose message declares the metadata alone. orphans: the warning of a kind whose dependents stay where a deletion says
    nothing of them. bare_finalizers: they need no prefix. body_version: the shown apiVersion, where it is not the kind's own. graceful:
    objects are marked before they are deleted, and watchers see it. actions: sub-resources beside /status. status_keeps: metadata
    that the status endpoint does not write, and nobody owns by it. beginnings: the endpoints ("": the object's own) whose updates may only
    have a generateName that the name rule takes. answer: for kinds that are asked, never stored. cached: kube-apiserver keeps all objects
    at hand, so that a list of version 0 knows no limit.
    """

    group: str
    version: str = "v1"
    kind: str
    plural: str
    namespaced: bool
    message: Message
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    status: Status = Status.NONE
    status_keeps: tuple[str, ...] = ()
    put_without_version: bool = True
    put_creates: bool = False
    delete_answers_object: bool = True
    deletes_collection: bool = True
    ttl_s: float | None = None
    name_rule: Callable[[str], list[str]] = names.dns_subdomain
    beginnings: tuple[str, ...] = ()
    default: Callable[[Json], None] = lambda _new: None
    prepare_create: Callable[[Json, float], None] = lambda _new, _now: None
    prepare_update: Callable[[Json, Json, float], None] = _keep_status
    prepare_status: Callable[[Json, Json, float], None] = lambda _new, _old, _now: None
    admit: Callable[[Json, OtherObjects], None] = lambda _new, _view: None
    admit_valid: Callable[[Json], None] = lambda _new: None
    admit_update: Callable[[Json, Json, OtherObjects], None] = lambda _new, _old, _view: None
    holds: Callable[[Json], bool] = lambda _obj: False
    delete: Callable[[Json, DeleteOptions, float], Json | None] = deletion.plain
    undeletable: frozenset[str] = frozenset()
    orphans: str = ""
    validate: Callable[[Json], Iterable[FieldCause]] = lambda _new: ()
    validate_create: Callable[[Json], Iterable[FieldCause]] = lambda _new: ()
    validate_update: Callable[[Json, Json], Iterable[FieldCause]] = lambda _new, _old: ()
    validate_status: Callable[[Json, Json], Iterable[FieldCause]] = lambda _new, _old: ()
    fields: Callable[[Json], Mapping[str, str]] = lambda _obj: {}
    field_names: frozenset[str] = frozenset()
    indexed: str = ""
    cached: bool = True
    warnings: Callable[[Json, Json | None], Iterable[str]] = lambda _new, _old: ()
    graceful: bool = False
    actions: tuple[Action, ...] = ()
    answer: Answer | None = None
    bare_finalizers: bool = False
    body_version: str = ""
    storage_version: StorageVersion | None = None
    decode: Callable[[Json, list[str]], Json] | None = None
    custom: Custom | None = None

    @property
    def api_version(self) -> str:
        """As objects say it."""
        if self.body_version:
            return self.body_version
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def name(self) -> str:
        """`volumeattachments.storage.k8s.io`, as messages name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def singular(self) -> str:
        return self.custom.singular if self.custom is not None else self.kind.lower()

    @property
    def list_kind(self) -> str:
        return self.custom.list_kind if self.custom is not None else f"{self.kind}List"

    @property
    def has_own_fields(self) -> bool:
        """To select by, beside those of the metadata: custom kinds may."""
        return bool(self.field_names) or self.custom is not None

    def unknown_field(self, key: str) -> str:
        """The refusal of a field to select by, as the kind's group words it."""
        if self.group == "batch":
            return f'field label "{key}" not supported for {self.kind}'
        if self.has_own_fields and self.group != "apps":
            return f"field label not supported: {key}"
        return f'"{key}" is not a known field selector: only "metadata.name", "metadata.namespace"'

    @property
    def verbs(self) -> tuple[str, ...]:
        """As discovery lists them."""
        if self.answer is not None:
            return ("create",)
        found = _CUSTOM_VERBS if self.custom is not None else _VERBS
        return tuple(verb for verb in found if verb != "deletecollection" or self.deletes_collection)

    @functools.cached_property
    def storage(self) -> tuple[str, str, str]:
        """The path that the objects are stored under."""
        return self.path if self.storage_version is None else self.storage_version.storage

    def encoded(self, obj: Json, old: Json | None = None) -> Json:
        """The kind's own shape into the stored one. old: what is stored."""
        return obj if self.storage_version is None else self.storage_version.encode(obj, old)

    def action(self, name: str) -> Action | None:
        """The sub-resource of that name; None for one that it doesn't have, and for status."""
        for action in self.actions:
            if action.name == name:
                return action
        return None

    @functools.cached_property
    def path(self) -> tuple[str, str, str]:
        """The key for URLs and `Kind`s: group, version, plural."""
        return self.group, self.version, self.plural


def answered_kind(group: str, kind: str, messages: Messages, answer: Answer, *, namespaced: bool = False) -> Resource:
    """A kind that is answered and never stored."""
    plural = f"{kind.lower()}s"
    return Resource(group=group, kind=kind, plural=plural, namespaced=namespaced, message=messages[kind], answer=answer)
