"""A kind as the server serves it: its names, and the rules that differ from kind to kind.

A `Resource` is a table row with functions in it; `rules/` has one per kind. Objects are whole JSON dicts in the stored
version. Rules run on dicts that have been decoded by the kind's schema, so types are right and required maps are there.
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
"""Of an answer: clients in Python read none of more than 100 headers. Differs from kube-apiserver, which bounds
letters alone.
"""


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
    """A request to be answered. resource, key: its object; for a kind without objects the kind itself, and a key
    without name.

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

    asks: POST of another kind that is answered and not kept: /binding, /eviction, /token. prepare: GET, PUT and PATCH
    of the object itself, of which the endpoint writes one part: /resize, /finalize. part: the same of another kind that
    shows a part of the object: /scale. connect: the endpoint of a machine that is not there: /log, /exec; raises, or
    has nothing to say. Its body is the query.

    verbs: for discovery. kind: for discovery without `asks`; "" for the object's own. prepare: undoes changes that the
    endpoint may not make. validate: all problems.
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

    storage: their path in the store; kinds with the same one show the same objects. decode: from the stored shape.
    encode: to it; the stored object is given too, None at creation. Both may write to their arguments. Rules run on the
    stored shape.
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
    """What a custom kind has from its definition."""

    definition: str
    #: The version that its objects are stored in.
    stored_in: str
    singular: str
    list_kind: str
    #: The openAPIV3Schema.
    schema: Json
    #: After the name; () for the usual ones.
    columns: tuple[CustomColumn, ...] = ()
    scale: ScalePaths | None = None
    #: The warning of a deprecated version, "" for others.
    deprecation: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Resource:
    """One kind as served. `now`: seconds since the epoch; `new` and `old`: whole objects, `new` may be written to."""

    # -- its names and its shape
    group: str
    version: str = "v1"
    kind: str
    plural: str
    namespaced: bool
    #: All fields that are known; a custom kind's declares the metadata alone.
    message: Message
    short_names: tuple[str, ...] = ()
    #: Names of several kinds together, such as `all` for kubectl get.
    categories: tuple[str, ...] = ()
    #: The shown apiVersion, where it is not the kind's own.
    body_version: str = ""
    #: For kinds that are stored in another shape.
    storage_version: StorageVersion | None = None
    #: In place of the message's decoder: from a body without apiVersion and kind, and a list that gets the paths of
    #: unknown fields.
    decode: Callable[[Json, list[str]], Json] | None = None
    #: The definition's part of a custom kind.
    custom: Custom | None = None
    #: For kinds that are asked, never stored.
    answer: Answer | None = None

    # -- its endpoints
    status: Status = Status.NONE
    #: Metadata that the status endpoint does not write, and nobody owns by it.
    status_keeps: tuple[str, ...] = ()
    #: Sub-resources beside /status.
    actions: tuple[Action, ...] = ()
    #: A PUT of the object may lack its resourceVersion.
    put_without_version: bool = True
    #: A PUT of an object that is not there makes it.
    put_creates: bool = False
    #: A deletion answers the object, otherwise a Status.
    delete_answers_object: bool = True
    deletes_collection: bool = True

    # -- the steps of a write, in their order
    #: Additions of admission at creation, unvalidated.
    admit: Callable[[Json, OtherObjects], None] = lambda _new, _view: None
    #: Fills in absent fields, on every write.
    default: Callable[[Json], None] = lambda _new: None
    #: Reset fields that the endpoint may not write.
    prepare_create: Callable[[Json, float], None] = lambda _new, _now: None
    prepare_update: Callable[[Json, Json, float], None] = _keep_status
    prepare_status: Callable[[Json, Json, float], None] = lambda _new, _old, _now: None
    #: The problems of a name.
    name_rule: Callable[[str], list[str]] = names.dns_subdomain
    #: The endpoints ("": the object's own) whose updates may only have a generateName that the name rule takes.
    beginnings: tuple[str, ...] = ()
    #: Finalizers need no prefix.
    bare_finalizers: bool = False
    #: All problems; those of creation, of an update and of the status beside them.
    validate: Callable[[Json], Iterable[FieldCause]] = lambda _new: ()
    validate_create: Callable[[Json], Iterable[FieldCause]] = lambda _new: ()
    validate_update: Callable[[Json, Json], Iterable[FieldCause]] = lambda _new, _old: ()
    validate_status: Callable[[Json, Json], Iterable[FieldCause]] = lambda _new, _old: ()
    #: Raise to refuse a valid new object, a valid update of the main resource.
    admit_valid: Callable[[Json], None] = lambda _new: None
    admit_update: Callable[[Json, Json, OtherObjects], None] = lambda _new, _old, _view: None
    #: For the Warning header; old is None at creation.
    warnings: Callable[[Json, Json | None], Iterable[str]] = lambda _new, _old: ()

    # -- its end
    #: Objects are marked before they are deleted, and watchers see it.
    graceful: bool = False
    #: The object that a deletion leaves, None when nothing holds it.
    delete: Callable[[Json, DeleteOptions, float], Json | None] = deletion.plain
    #: Something beside finalizers keeps a deleted object.
    holds: Callable[[Json], bool] = lambda _obj: False
    #: Names of objects that stay.
    undeletable: frozenset[str] = frozenset()
    #: The warning of a kind whose dependents stay where a deletion says nothing of them.
    orphans: str = ""
    #: Objects vanish that long after their last write.
    ttl_s: float | None = None

    # -- lists
    #: For field selectors, beside metadata.*: an object's values, and all names that there are.
    fields: Callable[[Json], Mapping[str, str]] = lambda _obj: {}
    field_names: frozenset[str] = frozenset()
    #: The one of them that leads straight to the objects.
    indexed: str = ""
    #: kube-apiserver keeps all objects at hand, so a list of version 0 knows no limit.
    cached: bool = True

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
