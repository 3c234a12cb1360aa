"""A definition into the kinds that the store serves: one for each version, all of the same objects; and the scale of
each.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from mooring.apiserver import api_errors
from mooring.apiserver.bodies.objects import VALUES_MAX
from mooring.apiserver.codecs.scalars import equal_json
from mooring.apiserver.codecs.schema import decode
from mooring.apiserver.custom import lifecycle
from mooring.apiserver.custom.columns_and_scale import columns_of, fields_of, scale_of, value_at
from mooring.apiserver.custom.object_validation import Validator, decode_embedded
from mooring.apiserver.custom.pruning import FromFloat, drop_nulls, fill, prune, settle_floats, whole_numbers
from mooring.apiserver.custom.structural_schema import Structure, has_rules, structure_of
from mooring.apiserver.kinds import version_order
from mooring.apiserver.metadata import META_MESSAGES
from mooring.apiserver.resource import (
    Action,
    Custom,
    CustomColumn,
    Json,
    OtherObjects,
    Resource,
    ScalePaths,
    Status,
    StorageVersion,
)
from mooring.kube.errors import Forbidden

if TYPE_CHECKING:
    from mooring.apiserver.custom.cel_rules import CelRules

_SCALE_MESSAGES: Final = META_MESSAGES.extended("""
Scale: 1 metadata ObjectMeta!, 2 spec ScaleSpec!, 3 status ScaleStatus!
ScaleSpec: 1 replicas i32
ScaleStatus: 1 replicas i32!, 2 selector s
""")
_SCALE_VERSION: Final = "autoscaling/v1"
_SCALE_METADATA: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_action(resource: Resource, paths: ScalePaths) -> Action:
    """The sub-resource of a kind. resource: the kind without it."""
    inner = Action(
        name="scale",
        verbs=("get", "patch", "update"),
        prepare=resource.prepare_update,
        validate=resource.validate_update,
    )
    shown = dataclasses.replace(
        resource,
        kind="Scale",
        body_version=_SCALE_VERSION,
        put_without_version=True,
        decode=lambda content, unknown: decode(_SCALE_MESSAGES["Scale"], content, unknown),
        storage_version=_scale_version(resource, paths),
        actions=(inner,),
    )
    return Action(name="scale", verbs=inner.verbs, part=shown)


def _scale_version(resource: Resource, paths: ScalePaths) -> StorageVersion:
    """Differs from kube-apiserver, which can't show the scale of an object without replicas: it is 0."""

    def decode_stored(stored: Json) -> Json:
        metadata = {name: stored["metadata"][name] for name in _SCALE_METADATA if name in stored["metadata"]}
        wanted, found = value_at(stored, paths.spec_replicas), value_at(stored, paths.status_replicas)
        status: Json = {"replicas": found or 0}
        if paths.selector and value_at(stored, paths.selector):
            status["selector"] = value_at(stored, paths.selector)
        spec = {"replicas": wanted} if wanted else {}
        return {"kind": "Scale", "apiVersion": _SCALE_VERSION, "metadata": metadata, "spec": spec, "status": status}

    def encode(shown: Json, old: Json | None) -> Json:
        """The object with that many replicas; what the scale says of its version and uid is asked for."""
        assert old is not None, "a scale is of something"
        version = resource.storage_version
        obj = old if version is None else version.encode(version.decode(old), None)
        for name in ("resourceVersion", "uid"):
            obj["metadata"].pop(name, None)
            if shown["metadata"].get(name):
                obj["metadata"][name] = shown["metadata"][name]
        holder = obj
        for step in paths.spec_replicas[:-1]:
            holder = holder.setdefault(step, {})
        holder[paths.spec_replicas[-1]] = shown["spec"].get("replicas", 0)
        return obj

    return StorageVersion(resource.storage, decode_stored, encode)


_METADATA: Final = META_MESSAGES.extended("Custom: 1 metadata ObjectMeta!")["Custom"]


def storage_of(definition: Json) -> tuple[str, str, str]:
    """Where the objects of a definition are stored, whatever version they are in."""
    return definition["spec"]["group"], "", definition["spec"]["names"]["plural"]


class VersionParts(msgspec.Struct, frozen=True, eq=False):
    """The parts of a definition's version that take long to make, and depend on nothing around it. version: as the
    definition has it.
    """

    version: Json
    schema: Json
    structure: Structure
    rules: CelRules | None
    columns: tuple[CustomColumn, ...]
    fields: Mapping[str, Callable[[Json], str]]


def parts_of(version: Json) -> VersionParts:
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    structure = structure_of(schema)
    return VersionParts(version, schema, structure, _rules(structure), columns_of(version), fields_of(version))


class CustomKind:
    """A definition and its versions, as kinds. definition: as `definitions.py` keeps one."""

    def __init__(self, definition: Json, versions: Sequence[VersionParts]) -> None:
        self._definition, self._versions = definition, versions
        self._storage = next(parts for parts in versions if parts.version["storage"])

    def served(self) -> tuple[Resource, ...]:
        """The kinds that the definition wants served. None before its names have been accepted."""
        if not lifecycle.has_condition(self._definition, "Established"):
            return ()
        return tuple(self._resource(parts) for parts in self._versions if parts.version["served"])

    def stored(self) -> Resource:
        """The kind in the version that objects are stored in, served or not."""
        return self._resource(self._storage)

    def _resource(self, parts: VersionParts) -> Resource:
        definition, version = self._definition, parts.version
        spec, names = definition["spec"], definition["status"]["acceptedNames"]
        subresources = version.get("subresources") or {}
        with_status, scale = subresources.get("status") is not None, scale_of(version)
        validator = Validator(names["kind"], parts.structure, parts.rules, scale)
        life = _Life(storage_of(definition), with_status, lifecycle.has_condition(definition, "Terminating"))
        resource = Resource(
            group=spec["group"],
            version=version["name"],
            kind=names["kind"],
            plural=names["plural"],
            namespaced=spec["scope"] == "Namespaced",
            message=_METADATA,
            short_names=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
            status=Status.ONLY if with_status else Status.NONE,
            put_without_version=False,
            delete_answers_object=False,
            admit=life.admit,
            prepare_create=life.prepare_create,
            prepare_update=life.prepare_update,
            prepare_status=life.prepare_status,
            validate_create=validator.created,
            validate_update=validator.updated,
            validate_status=validator.updated,
            fields=self._fields(),
            field_names=frozenset(parts.fields),
            bare_finalizers=True,
            storage_version=self._storage_version(parts),
            decode=_decoder(parts.structure),
            custom=self._custom(parts),
        )
        return resource if scale is None else dataclasses.replace(resource, actions=(scale_action(resource, scale),))

    def _fields(self) -> Callable[[Json], dict[str, str]]:
        """The selectable fields of all versions: objects are stored once for all of them."""
        found = {name: field for parts in self._versions for name, field in parts.fields.items()}
        return lambda obj: {name: field(obj) for name, field in found.items()}

    def _custom(self, parts: VersionParts) -> Custom:
        names = self._definition["status"]["acceptedNames"]
        return Custom(
            definition=self._definition["metadata"]["name"],
            stored_in=self._storage.version["name"],
            singular=names.get("singular", ""),
            list_kind=names.get("listKind", ""),
            schema=parts.schema,
            columns=parts.columns,
            scale=scale_of(parts.version),
            deprecation=self._deprecation(parts.version),
        )

    def _deprecation(self, version: Json) -> str:
        if not version.get("deprecated"):
            return ""
        group, kind = self._definition["spec"]["group"], self._definition["spec"]["names"]["kind"]
        versions = [parts.version for parts in self._versions]
        others = [other["name"] for other in versions if other["served"] and not other.get("deprecated")]
        better = [name for name in others if version_order(name) < version_order(version["name"])]
        use = f"; use {group}/{min(better, key=version_order)} {kind}" if better else ""
        return str(version.get("deprecationWarning") or f"{group}/{version['name']} {kind} is deprecated{use}")

    def _storage_version(self, parts: VersionParts) -> StorageVersion:
        """Objects are pruned and filled by the version that they are stored in, which may not be today's: a field that
        only an older version knows stays until somebody writes the object. Then they are pruned by the version shown.
        """
        group, name = self._definition["spec"]["group"], parts.version["name"]
        storage_name, today = self._storage.version["name"], self._storage.structure
        structures = {other.version["name"]: other.structure for other in self._versions}

        def decode_stored(obj: Json) -> Json:
            written_in = obj["apiVersion"].rpartition("/")[2]
            stored = structures.get(written_in, today)
            prune(obj, stored)
            fill(obj, stored)
            if written_in != name:
                prune(obj, parts.structure)
            return {**obj, "apiVersion": f"{group}/{name}"}

        def encode(obj: Json, _old: Json | None) -> Json:
            if name != storage_name:
                prune(obj, today)
            return {**obj, "apiVersion": f"{group}/{storage_name}"}

        return StorageVersion(storage_of(self._definition), decode_stored, encode)


def _rules(structure: Structure) -> CelRules | None:
    if not has_rules(structure.raw):
        return None
    from mooring.apiserver.custom.cel_rules import rules_of  # noqa: PLC0415  CEL comes with the first rule

    return rules_of(structure)


def _decoder(structure: Structure) -> Callable[[Json, list[str]], Json]:
    def decode_custom(content: Json, unknown: list[str]) -> Json:
        metadata = decode(_METADATA, {"metadata": content.get("metadata")}, unknown)
        obj = {
            **metadata,
            **{name: whole_numbers(value, FromFloat) for name, value in content.items() if name != "metadata"},
        }
        prune(obj, structure, gone=unknown)
        drop_nulls(obj, structure)
        if structure.has_embedded:
            decode_embedded(obj, structure, unknown)
        if not fill(obj, structure):
            raise api_errors.too_large(f"more than {VALUES_MAX} values with the defaults")
        return obj

    return decode_custom


class _Life(msgspec.Struct, frozen=True):
    """The fields that a custom kind's endpoints may write, and its generation."""

    storage: tuple[str, str, str]
    with_status: bool
    ending: bool

    def admit(self, new: Json, _view: OtherObjects) -> None:
        if not self.ending:
            return
        name, (group, _, plural) = new["metadata"].get("name", ""), self.storage
        text = (
            f'{plural}.{group} "{name}" is forbidden: create not allowed while custom resource definition is '
            "terminating"
        )
        raise Forbidden(text, reason="Forbidden", details={"name": name, "group": group, "kind": plural})

    def prepare_create(self, new: Json, _now: float) -> None:
        new["metadata"]["generation"] = 1
        settle_floats(new)
        if self.with_status:
            new.pop("status", None)

    def prepare_update(self, new: Json, old: Json, _now: float) -> None:
        if self.with_status:
            new.pop("status", None)
            if "status" in old:
                new["status"] = old["status"]
        if settle_floats(new) or not equal_json(self._content(new), self._content(old)):
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def prepare_status(self, new: Json, _old: Json, _now: float) -> None:
        settle_floats(new)

    def _content(self, obj: Json) -> Json:
        return {name: value for name, value in obj.items() if name not in ("metadata", "apiVersion")}
