"""A definition into the kinds that the store serves: one for each version, all of the same objects."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Final

from mooring.apiserver import objectmeta
from mooring.apiserver.custom import conditions, defining
from mooring.apiserver.custom.columns import columns_of, fields_of, scale_of
from mooring.apiserver.custom.embedded import decode_embedded
from mooring.apiserver.custom.facts import Custom
from mooring.apiserver.custom.judging import Judge
from mooring.apiserver.custom.rules import rules_of
from mooring.apiserver.custom.shaping import drop_nulls, fill, prune, whole_numbers
from mooring.apiserver.custom.structure import Structure, structure_of
from mooring.apiserver.resource import Form, Json, Resource, Status, View
from mooring.apiserver.schema import Messages, decode
from mooring.kube.errors import MethodNotAllowed

_METADATA: Final = Messages("Custom: 1 metadata ObjectMeta!", objectmeta.MESSAGES)["Custom"]


def storage_of(definition: Json) -> tuple[str, str, str]:
    """Where the objects of a definition are stored, whatever version they are in."""
    return definition["spec"]["group"], "", definition["spec"]["names"]["plural"]


def resources_of(definition: Json) -> tuple[Resource, ...]:
    """The kinds that the definition wants served. None before its names have been accepted."""
    if not conditions.is_true(definition, "Established"):
        return ()
    return tuple(_resource(definition, version) for version in definition["spec"]["versions"] if version["served"])


def stored_resource(definition: Json) -> Resource:
    """The kind in the version that objects are stored in, served or not."""
    stored = defining.storage_version(definition)
    return next(_resource(definition, version) for version in definition["spec"]["versions"] if version["name"] == stored)


def _resource(definition: Json, version: Json) -> Resource:
    spec, names = definition["spec"], definition["status"]["acceptedNames"]
    subresources = version.get("subresources") or {}
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    structure = structure_of(schema)
    with_status = subresources.get("status") is not None
    judge = Judge(structure, rules_of(structure), scale_of(version))
    life = _Life(with_status, conditions.is_true(definition, "Terminating"))
    return Resource(
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
        validate_create=judge.created,
        validate_update=judge.updated,
        validate_status=judge.updated,
        fields=_fields(definition),
        field_names=frozenset(fields_of(version)),
        bare_finalizers=True,
        form=_form(definition, version, structure),
        decode=_decoder(structure),
        custom=_custom(definition, version, schema),
    )


def _fields(definition: Json) -> Callable[[Json], dict[str, str]]:
    """The selectable fields of all versions: objects are stored once for all of them."""
    found = {name: field for version in definition["spec"]["versions"] for name, field in fields_of(version).items()}
    return lambda obj: {name: field(obj) for name, field in found.items()}


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
    kind = f"{definition['spec']['group']}/{version['name']} {definition['spec']['names']['kind']}"
    return str(version.get("deprecationWarning") or f"{kind} is deprecated")


def _form(definition: Json, version: Json, structure: Structure) -> Form:
    group = definition["spec"]["group"]
    shown_version = f"{group}/{version['name']}"
    stored_version = f"{group}/{defining.storage_version(definition)}"

    def show(obj: Json) -> Json:
        """Objects may be older than the schema."""
        obj["apiVersion"] = shown_version
        prune(obj, structure)
        fill(obj, structure)
        return obj

    def keep(obj: Json) -> Json:
        obj["apiVersion"] = stored_version
        return obj

    return Form(storage_of(definition), show, keep)


def _decoder(structure: Structure) -> Callable[[Json, list[str]], Json]:
    def decode_custom(content: Json, unknown: list[str]) -> Json:
        metadata = decode(_METADATA, {"metadata": content.get("metadata")}, unknown)
        obj = {**metadata, **{name: whole_numbers(value) for name, value in content.items() if name != "metadata"}}
        prune(obj, structure, gone=unknown)
        drop_nulls(obj, structure)
        if structure.has_embedded:
            decode_embedded(obj, structure, unknown)
        fill(obj, structure)
        return obj

    return decode_custom


@dataclasses.dataclass(frozen=True)
class _Life:
    """What the endpoints of a custom kind write, and its generation."""

    with_status: bool
    ending: bool

    def admit(self, _new: Json, _view: View) -> None:
        if self.ending:
            text = "create not allowed while custom resource definition is terminating"
            raise MethodNotAllowed(text, reason="MethodNotAllowed")

    def prepare_create(self, new: Json, _now: float) -> None:
        new["metadata"]["generation"] = 1
        if self.with_status:
            new.pop("status", None)

    def prepare_update(self, new: Json, old: Json, _now: float) -> None:
        if self.with_status:
            new.pop("status", None)
            if "status" in old:
                new["status"] = old["status"]
        if self._content(new) != self._content(old):
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def _content(self, obj: Json) -> Json:
        return {name: value for name, value in obj.items() if name not in ("metadata", "apiVersion")}
