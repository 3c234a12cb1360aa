"""A definition into the kinds that the store serves: one for each version, all of the same objects; and the scale of each."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from mooring.apiserver import api_errors, objectmeta
from mooring.apiserver.codecs.codec import VALUES_MAX
from mooring.apiserver.codecs.scalars import equal_json
from mooring.apiserver.codecs.schema import decode
from mooring.apiserver.custom import lifecycle
from mooring.apiserver.custom.prune_default import drop_nulls, fill, prune, whole_numbers
from mooring.apiserver.custom.structure import Custom, ScalePaths, Structure, has_rules, structure_of
from mooring.apiserver.custom.validate import Validator, decode_embedded
from mooring.apiserver.custom.views import columns_of, fields_of, scale_of
from mooring.apiserver.kinds import version_order
from mooring.apiserver.resource import Action, Json, Resource, Status, StorageVersion, View
from mooring.kube.errors import Forbidden

if TYPE_CHECKING:
    from mooring.apiserver.custom.rules import Rules

_SCALE_MESSAGES: Final = objectmeta.MESSAGES.extended("""
Scale: 1 metadata ObjectMeta!, 2 spec ScaleSpec!, 3 status ScaleStatus!
ScaleSpec: 1 replicas i32
ScaleStatus: 1 replicas i32!, 2 selector s
""")
_SCALE_VERSION: Final = "autoscaling/v1"
_SCALE_METADATA: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_action(resource: Resource, paths: ScalePaths) -> Action:
    """The sub-resource of a kind. resource: the kind without it."""
    inner = Action(name="scale", verbs=("get", "patch", "update"), prepare=resource.prepare_update, validate=resource.validate_update)
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
        wanted, found = _at(stored, paths.spec_replicas), _at(stored, paths.status_replicas)
        status: Json = {"replicas": found or 0}
        if paths.selector and _at(stored, paths.selector):
            status["selector"] = _at(stored, paths.selector)
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


def _at(obj: Any, steps: tuple[str, ...]) -> Any:
    for step in steps:
        obj = obj.get(step) if isinstance(obj, dict) else None
    return obj


_METADATA: Final = objectmeta.MESSAGES.extended("Custom: 1 metadata ObjectMeta!")["Custom"]


def storage_of(definition: Json) -> tuple[str, str, str]:
    """Where the objects of a definition are stored, whatever version they are in."""
    return definition["spec"]["group"], "", definition["spec"]["names"]["plural"]


def resources_of(definition: Json) -> tuple[Resource, ...]:
    """The kinds that the definition wants served. None before its names have been accepted."""
    if not lifecycle.has_condition(definition, "Established"):
        return ()
    return tuple(_resource(definition, version) for version in definition["spec"]["versions"] if version["served"])


def stored_resource(definition: Json) -> Resource:
    """The kind in the version that objects are stored in, served or not."""
    return _resource(definition, _version(definition, lifecycle.storage_version(definition)))


def _version(definition: Json, name: str) -> Json:
    return next(version for version in definition["spec"]["versions"] if version["name"] == name)


def _schema_of(version: Json) -> Json:
    return (version.get("schema") or {}).get("openAPIV3Schema") or {}


def _resource(definition: Json, version: Json) -> Resource:
    spec, names = definition["spec"], definition["status"]["acceptedNames"]
    subresources = version.get("subresources") or {}
    schema = _schema_of(version)
    structure = structure_of(schema)
    with_status = subresources.get("status") is not None
    validator = Validator(names["kind"], structure, _rules(structure), scale_of(version))
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
        validate_create=validator.created,
        validate_update=validator.updated,
        validate_status=validator.updated,
        fields=_fields(definition),
        field_names=frozenset(fields_of(version)),
        bare_finalizers=True,
        storage_version=_storage_version(definition, version, structure),
        decode=_decoder(structure),
        custom=_custom(definition, version, schema),
    )
    paths = scale_of(version)
    return resource if paths is None else dataclasses.replace(resource, actions=(scale_action(resource, paths),))


def _fields(definition: Json) -> Callable[[Json], dict[str, str]]:
    """The selectable fields of all versions: objects are stored once for all of them."""
    found = {name: field for version in definition["spec"]["versions"] for name, field in fields_of(version).items()}
    return lambda obj: {name: field(obj) for name, field in found.items()}


def _rules(structure: Structure) -> Rules | None:
    if not has_rules(structure.raw):
        return None
    from mooring.apiserver.custom.rules import rules_of  # noqa: PLC0415  CEL comes with the first rule

    return rules_of(structure)


def _custom(definition: Json, version: Json, schema: Json) -> Custom:
    names = definition["status"]["acceptedNames"]
    return Custom(
        definition=definition["metadata"]["name"],
        singular=names.get("singular", ""),
        list_kind=names.get("listKind", ""),
        schema=schema,
        columns=columns_of(version),
        scale=scale_of(version),
        deprecation=_deprecation(definition, version),
    )


def _deprecation(definition: Json, version: Json) -> str:
    if not version.get("deprecated"):
        return ""
    group, kind = definition["spec"]["group"], definition["spec"]["names"]["kind"]
    others = [other["name"] for other in definition["spec"]["versions"] if other["served"] and not other.get("deprecated")]
    better = [name for name in others if version_order(name) < version_order(version["name"])]
    use = f"; use {group}/{min(better, key=version_order)} {kind}" if better else ""
    return str(version.get("deprecationWarning") or f"{group}/{version['name']} {kind} is deprecated{use}")


def _storage_version(definition: Json, version: Json, structure: Structure) -> StorageVersion:
    """Objects are stored as the storage version has them, and may be older than its schema."""
    group, storage_name = definition["spec"]["group"], lifecycle.storage_version(definition)
    is_storage = version["name"] == storage_name
    stored = structure if is_storage else structure_of(_schema_of(_version(definition, storage_name)))

    def decode_stored(obj: Json) -> Json:
        prune(obj, stored)
        fill(obj, stored)
        if not is_storage:
            prune(obj, structure)
        return {**obj, "apiVersion": f"{group}/{version['name']}"}

    def encode(obj: Json, _old: Json | None) -> Json:
        if not is_storage:
            prune(obj, stored)
        return {**obj, "apiVersion": f"{group}/{storage_name}"}

    return StorageVersion(storage_of(definition), decode_stored, encode)


def _decoder(structure: Structure) -> Callable[[Json, list[str]], Json]:
    def decode_custom(content: Json, unknown: list[str]) -> Json:
        metadata = decode(_METADATA, {"metadata": content.get("metadata")}, unknown)
        obj = {**metadata, **{name: whole_numbers(value) for name, value in content.items() if name != "metadata"}}
        prune(obj, structure, gone=unknown)
        drop_nulls(obj, structure)
        if structure.has_embedded:
            decode_embedded(obj, structure, unknown)
        if not fill(obj, structure):
            raise api_errors.too_large(f"more than {VALUES_MAX} values with the defaults")
        return obj

    return decode_custom


@dataclasses.dataclass(frozen=True)
class _Life:
    """The fields that a custom kind's endpoints may write, and its generation."""

    storage: tuple[str, str, str]
    with_status: bool
    ending: bool

    def admit(self, new: Json, _view: View) -> None:
        if not self.ending:
            return
        name, (group, _, plural) = new["metadata"].get("name", ""), self.storage
        text = f'{plural}.{group} "{name}" is forbidden: create not allowed while custom resource definition is terminating'
        raise Forbidden(text, reason="Forbidden", details={"name": name, "group": group, "kind": plural})

    def prepare_create(self, new: Json, _now: float) -> None:
        new["metadata"]["generation"] = 1
        if self.with_status:
            new.pop("status", None)

    def prepare_update(self, new: Json, old: Json, _now: float) -> None:
        if self.with_status:
            new.pop("status", None)
            if "status" in old:
                new["status"] = old["status"]
        if not equal_json(self._content(new), self._content(old)):
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def _content(self, obj: Json) -> Json:
        return {name: value for name, value in obj.items() if name not in ("metadata", "apiVersion")}
