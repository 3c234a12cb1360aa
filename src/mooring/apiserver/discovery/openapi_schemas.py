"""The schemas in OpenAPI documents, made from the declarations of built-in kinds and from the definitions of custom
ones.
"""

from __future__ import annotations

from typing import Any, Final

from mooring.apiserver.codecs.schema import Field, Message
from mooring.apiserver.discovery.fieldwords import words_for
from mooring.apiserver.metadata import META_MESSAGES
from mooring.apiserver.resource import Json, Resource
from mooring.apiserver.server_side_apply import shapes

PATCH: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch"

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1"
_CORE: Final = "io.k8s.api.core.v1"
_EXTENSIONS: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"
_QUANTITY: Final = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING: Final = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_TIME: Final = f"{_META}.Time"
_JSON: Final = f"{_EXTENSIONS}.JSON"
_MICRO_TIME: Final = f"{_META}.MicroTime"
_FIELDS: Final = f"{_META}.FieldsV1"
_LIST_META: Final = f"{_META}.ListMeta"
_SCALARS: Final[dict[str, dict[str, Any]]] = {
    "s": {"type": "string"},
    "b": {"type": "boolean"},
    "i32": {"type": "integer", "format": "int32"},
    "i64": {"type": "integer", "format": "int64"},
    "y": {"type": "string", "format": "byte"},
    "f64": {"type": "number", "format": "double"},
}
_NAMED: Final = {"time": _TIME, "micro": _MICRO_TIME, "q": _QUANTITY, "intstr": _INT_OR_STRING, "any": _JSON}
_COMMON: Final[dict[str, dict[str, Any]]] = {
    _QUANTITY: {
        "description": "A number with a unit: 1Gi, 500M, 0.5.",
        "oneOf": [{"type": "string"}, {"type": "number"}],
    },
    _INT_OR_STRING: {
        "description": "A number, or a name.",
        "format": "int-or-string",
        "oneOf": [{"type": "integer"}, {"type": "string"}],
    },
    _TIME: {"description": "RFC 3339, to the second.", "type": "string", "format": "date-time"},
    _MICRO_TIME: {"description": "RFC 3339, to the microsecond.", "type": "string", "format": "date-time"},
    _JSON: {"description": "Any JSON value."},
    _FIELDS: {"description": "A set of fields, as a tree.", "type": "object"},
    PATCH: {"description": "The body of a PATCH.", "type": "object"},
    _LIST_META: {
        "description": "What all lists carry.",
        "type": "object",
        "properties": {
            "continue": {"type": "string"},
            "remainingItemCount": {"type": "integer", "format": "int64"},
            "resourceVersion": {"type": "string"},
            "selfLink": {"type": "string"},
        },
    },
}
_RETAIN_KEYS: Final = frozenset(("PodSpec.volumes", "PodSpec.resourceClaims", "PodStatus.resourceClaimStatuses"))
"""Lists in whose items a client-side apply leaves nothing but what it says."""


class Schemas:
    """A document's schemas: what its kinds are made of, each once."""

    def __init__(self) -> None:
        self._made: dict[str, Json] = {}
        self._packages: dict[int, str] = {id(META_MESSAGES): _META}

    def all(self) -> dict[str, Json]:
        return dict(sorted(self._made.items()))

    def kind(self, resource: Resource) -> str:
        """The name of a kind's schema, which is in the document from now on."""
        self._common(PATCH)
        name = f"{_package_of(resource)}.{resource.kind}"
        if resource.custom is not None:
            schema = self._custom(resource)
        else:
            self._packages.setdefault(id(resource.message.messages), _package_of(resource))
            schema = self._message(resource.message)
            own = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
            schema["properties"] = {**own, **schema["properties"]}
        schema["x-kubernetes-group-version-kind"] = [_gvk(resource, resource.kind)]
        self._made[name] = schema
        return name

    def list(self, resource: Resource) -> str:
        """The same for its lists."""
        self._common(_LIST_META)
        name = f"{_package_of(resource)}.{resource.list_kind}"
        properties = {
            "apiVersion": {"type": "string"},
            "items": {"type": "array", "items": reference(f"{_package_of(resource)}.{resource.kind}")},
            "kind": {"type": "string"},
            "metadata": {"allOf": [reference(_LIST_META)]},
        }
        self._made[name] = {
            "description": f"A list of {resource.kind}.",
            "type": "object",
            "required": ["items"],
            "properties": properties,
            "x-kubernetes-group-version-kind": [_gvk(resource, resource.list_kind)],
        }
        return name

    def _custom(self, resource: Resource) -> Json:
        """The schema of the definition, with what all objects have."""
        assert resource.custom is not None
        schema = {name: value for name, value in resource.custom.schema.items() if name not in ("type", "properties")}
        given = resource.custom.schema.get("properties") or {}
        own = {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"allOf": [self._ref(META_MESSAGES["ObjectMeta"])]},
        }
        properties = {**given, **own}
        return {**schema, "type": "object", "properties": dict(sorted(properties.items()))}

    def _message(self, message: Message) -> Json:
        schema: Json = {"type": "object"}
        words = words_for(message.name)
        if "" in words:
            schema["description"] = words[""]
        required = [name for name, field in message.fields.items() if _is_required(message, field)]
        if required:
            schema["required"] = required
        properties = {name: self._field(message, field) for name, field in sorted(message.fields.items())}
        schema["properties"] = {
            name: {"description": words[name], **one} if name in words else one for name, one in properties.items()
        }
        if message.whole:
            schema["x-kubernetes-map-type"] = "atomic"
        return schema

    def _field(self, message: Message, field: Field) -> Json:
        one, place = self._value(message, field), (message.name, field.name)
        if field.shape == "{":
            schema: Json = {"type": "object", "additionalProperties": one}
            return {**schema, "x-kubernetes-map-type": "atomic"} if field.whole else schema
        if field.shape == "*":
            return {"type": "array", "items": one, **_list_type(message, field)}
        if "$ref" in one:
            one = {"allOf": [one]}
        return {**one, "x-kubernetes-map-type": "granular"} if place in shapes.GRANULAR_FIELDS else one

    def _value(self, message: Message, field: Field) -> Json:
        inner = message.of(field)
        if inner is not None:
            return self._ref(inner)
        name = _FIELDS if field.name == "fieldsV1" else _NAMED.get(field.type)
        if name is not None:
            self._common(name)
            return reference(name)
        return dict(_SCALARS[field.type])

    def _ref(self, message: Message) -> Json:
        """A reference to a message's schema, which is made where it isn't there yet."""
        name = f"{self._packages.get(id(message.messages), _CORE)}.{message.name}"
        if name not in self._made:
            self._made[name] = {}  # (it may hold itself)
            self._made[name] = self._message(message)
        return reference(name)

    def _common(self, name: str) -> None:
        self._made.setdefault(name, dict(_COMMON[name]))


def reference(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _package_of(resource: Resource) -> str:
    if resource.custom is not None:
        return ".".join([*reversed(resource.group.split(".")), resource.version])
    if not resource.group:
        return _CORE
    return (
        _EXTENSIONS
        if resource.group == "apiextensions.k8s.io"
        else f"io.k8s.api.{resource.group.partition('.')[0]}.{resource.version}"
    )


def _gvk(resource: Resource, kind: str) -> dict[str, str]:
    return {"group": resource.group, "kind": kind, "version": resource.version}


def _is_required(message: Message, field: Field) -> bool:
    if field.required is not None:
        return field.required
    return (
        field.always
        and not field.pointer
        and field.type not in ("time", "micro")
        and (bool(field.shape) or message.of(field) is None)
    )


def _list_type(message: Message, field: Field) -> Json:
    keys = field.apply_keys
    schema: Json = {"x-kubernetes-list-type": "atomic" if keys is None else "map" if keys else "set"}
    if keys:
        schema["x-kubernetes-list-map-keys"] = list(keys)
    if field.merge_key is not None:
        retains = f"{message.name}.{field.name}" in _RETAIN_KEYS
        schema["x-kubernetes-patch-strategy"] = "merge,retainKeys" if retains else "merge"
        if field.merge_key:
            schema["x-kubernetes-patch-merge-key"] = field.merge_key
    return schema
