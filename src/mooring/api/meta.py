"""The parts of every Kubernetes object: metadata, a kind, a key.

The structs here and beside it decode only the fields that Mooring uses, are frozen, and are never written back whole:
changes travel as patches (`kube/patch.py`). JSON names are camelCase on the wire.
"""

from __future__ import annotations

from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

import msgspec


class ApiStruct(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """Base of all API structs. No reference cycles, so the collector may leave them alone.

    is_unique: hardly any two objects have equal parts of this type. unique_fields: texts that hardly any other object
    has. referred_to_by: the fields of its metadata that objects of other kinds have in them, too. has_json: an object
    of this type keeps JSON of any shape somewhere, whose depth is looked at before it is decoded.
    """

    is_unique: ClassVar[bool] = False
    unique_fields: ClassVar[frozenset[str]] = frozenset({"resource_version", "volume_handle"})
    referred_to_by: ClassVar[frozenset[str]] = frozenset()
    has_json: ClassVar[bool] = False


class OwnerReference(ApiStruct, frozen=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class LabelSelectorRequirement(ApiStruct, frozen=True):
    """operator: In, NotIn, Exists, DoesNotExist."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None


class LabelSelector(ApiStruct, frozen=True):
    """Selects what all its conditions hold for; without any it selects everything."""

    match_labels: dict[str, str] | None = None
    match_expressions: tuple[LabelSelectorRequirement, ...] | None = None


class Condition(ApiStruct, frozen=True):
    """status: True, False, Unknown."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    last_probe_time: str | None = None


class ObjectMeta(ApiStruct, frozen=True):
    """metadata, without managedFields. Times are RFC 3339 text as the server sent them; resource_version is opaque
    text.
    """

    is_unique: ClassVar[bool] = True
    unique_fields: ClassVar[frozenset[str]] = frozenset({"resource_version", "name", "uid"})

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    finalizers: tuple[str, ...] | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[OwnerReference, ...] | None = None
    generate_name: str = ""
    generation: int = 0


class Key(NamedTuple):
    """Names one object of a kind. namespace: "" for cluster-scoped kinds."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Object(Protocol):
    """Any API object of ours."""

    @property
    def metadata(self) -> ObjectMeta: ...


class CustomObject(ApiStruct, frozen=True):
    """An object of a kind of one's own, with spec and status as JSON values; the kind's schema says what is in them."""

    has_json: ClassVar[bool] = True

    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


T_co = TypeVar("T_co", covariant=True)
U = TypeVar("U")


class Kind(msgspec.Struct, Generic[T_co], frozen=True):
    """A resource and the type of its objects. struct: has `metadata`; `dict` keeps whole objects, for those that
    PUT.
    """

    group: str
    version: str
    name: str
    plural: str
    namespaced: bool
    struct: type[T_co]

    @property
    def api_version(self) -> str:
        """`storage.k8s.io/v1`, or `v1` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """`volumeattachments.storage.k8s.io`, as error messages name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def decoded_as(self, other: type[U]) -> Kind[U]:
        """The same resource, decoded into another type."""
        return Kind(self.group, self.version, self.name, self.plural, self.namespaced, other)

    def whole(self) -> Kind[dict[str, Any]]:
        """The same resource as whole JSON objects."""
        return self.decoded_as(dict)


def key_of(obj: Object) -> Key:
    return Key(obj.metadata.namespace, obj.metadata.name)


def owner_reference(owner: Object, kind: Kind[Any]) -> dict[str, Any]:
    """The entry in another object's metadata.ownerReferences that makes the owner its controller: the garbage collector
    deletes the object once the owner is gone.
    """
    meta = owner.metadata
    found = OwnerReference(kind.api_version, kind.name, meta.name, meta.uid, controller=True, block_owner_deletion=True)
    values: dict[str, Any] = msgspec.to_builtins(found)
    return values


def owner_keys(obj: Object, kind: Kind[Any]) -> list[Key]:
    """The keys of the object's owners of this kind, in any version; a namespaced owner is in the object's namespace."""
    namespace = obj.metadata.namespace if kind.namespaced else ""
    return [
        Key(namespace, owner.name)
        for owner in obj.metadata.owner_references or ()
        if owner.kind == kind.name and owner.api_version.rpartition("/")[0] == kind.group
    ]


def is_deleting(obj: Object) -> bool:
    """True after a deletion request, while finalizers still hold the object."""
    return obj.metadata.deletion_timestamp is not None


def finalizers_of(obj: Object) -> tuple[str, ...]:
    return obj.metadata.finalizers or ()


def annotation(obj: Object, name: str) -> str:
    return (obj.metadata.annotations or {}).get(name, "")
