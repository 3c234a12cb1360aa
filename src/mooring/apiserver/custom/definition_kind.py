"""apiextensions.k8s.io/v1 CustomResourceDefinition: its shape and its life. The other files of `custom/` validate
it.
"""

from __future__ import annotations

from typing import Any, Final

from mooring.apiserver.codecs.scalars import WrongType
from mooring.apiserver.codecs.schema import decode
from mooring.apiserver.custom import definition_validation, lifecycle
from mooring.apiserver.custom.pruning import whole_numbers
from mooring.apiserver.metadata import META_MESSAGES
from mooring.apiserver.resource import Json, Resource, Status

MESSAGES: Final = META_MESSAGES.extended("""
CustomResourceDefinition: 1 metadata ObjectMeta!, 2 spec CustomResourceDefinitionSpec!+, 3 status CustomResourceDefinitionStatus!
CustomResourceDefinitionSpec: 1 group s!, 3 names CustomResourceDefinitionNames!+, 4 scope s!, 7 versions *CustomResourceDefinitionVersion!, 9 conversion CustomResourceConversion?, 10 preserveUnknownFields b
CustomResourceDefinitionNames: 1 plural s!, 2 singular s, 3 shortNames *s, 4 kind s!, 5 listKind s, 6 categories *s
CustomResourceDefinitionVersion: 1 name s!, 2 served b!, 3 storage b!, 7 deprecated b, 8 deprecationWarning s?, 4 schema CustomResourceValidation?, 5 subresources CustomResourceSubresources?, 6 additionalPrinterColumns *CustomResourceColumnDefinition, 9 selectableFields *SelectableField
CustomResourceValidation: 1 openAPIV3Schema JSONSchemaProps?
CustomResourceSubresources: 1 status CustomResourceSubresourceStatus?, 2 scale CustomResourceSubresourceScale?
CustomResourceSubresourceStatus
CustomResourceSubresourceScale: 1 specReplicasPath s!, 2 statusReplicasPath s!, 3 labelSelectorPath s?
CustomResourceColumnDefinition: 1 name s!, 2 type s!, 3 format s, 4 description s, 5 priority i32, 6 jsonPath s!
SelectableField: 1 jsonPath s!
CustomResourceConversion: 1 strategy s!, 2 webhook WebhookConversion?
WebhookConversion: 2 clientConfig WebhookClientConfig?, 3 conversionReviewVersions *s!
WebhookClientConfig: 3 url s?, 1 service ServiceReference?, 2 caBundle y
ServiceReference: 1 namespace s!, 2 name s!, 3 path s?, 4 port i32?
CustomResourceDefinitionStatus: 1 conditions *CustomResourceDefinitionCondition!-~type, 2 acceptedNames CustomResourceDefinitionNames!, 3 storedVersions *s!-, 4 observedGeneration i64
CustomResourceDefinitionCondition: 1 type s!, 2 status s!, 3 lastTransitionTime time, 4 reason s, 5 message s, 6 observedGeneration i64
JSONSchemaProps: 1 id s, 2 $schema s, 3 $ref s?, 4 description s, 5 type s, 6 format s, 7 title s, 8 default any?, 9 maximum f64?, 10 exclusiveMaximum b, 11 minimum f64?, 12 exclusiveMinimum b, 13 maxLength i64?, 14 minLength i64?, 15 pattern s, 16 maxItems i64?, 17 minItems i64?, 18 uniqueItems b, 19 multipleOf f64?, 20 enum any?, 21 maxProperties i64?, 22 minProperties i64?, 23 required *s, 24 items any?, 25 allOf *JSONSchemaProps, 26 oneOf *JSONSchemaProps, 27 anyOf *JSONSchemaProps, 28 not JSONSchemaProps?, 29 properties {JSONSchemaProps}, 30 additionalProperties any?, 31 patternProperties {JSONSchemaProps}, 32 dependencies {any}, 33 additionalItems any?, 34 definitions {JSONSchemaProps}, 35 externalDocs ExternalDocumentation?, 36 example any?, 37 nullable b, 38 x-kubernetes-preserve-unknown-fields b?, 39 x-kubernetes-embedded-resource b, 40 x-kubernetes-int-or-string b, 41 x-kubernetes-list-map-keys *s, 42 x-kubernetes-list-type s?, 43 x-kubernetes-map-type s?, 44 x-kubernetes-validations *ValidationRule~rule
ExternalDocumentation: 1 description s, 2 url s
ValidationRule: 1 rule s!, 2 message s, 3 messageExpression s, 4 reason s?, 5 fieldPath s, 6 optionalOldSelf b?
""")  # noqa: E501

_LOOSE: Final[dict[str, tuple[type, ...]]] = {
    "additionalItems": (dict, bool),
    "additionalProperties": (dict, bool),
    "enum": (list,),
}
"""Parts of a schema that may be of several types, or whose values may be null."""

_VALUES: Final = ("default", "enum", "example", "maximum", "minimum", "multipleOf")
"""Parts of a schema that are values, in which Go writes 1.0 as 1."""

_DEPTH_MAX: Final = 50
_SCHEMAS: Final = ("allOf", "oneOf", "anyOf")
_SCHEMA_MAPS: Final = ("properties", "patternProperties", "definitions")


def _decode(content: Json, unknown: list[str]) -> Json:
    """The message's decoder, and on into schemas that stand where something else may stand, too."""
    obj = decode(MESSAGES["CustomResourceDefinition"], content, unknown)
    for number, version in enumerate(obj["spec"]["versions"] or []):
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if schema is not None:
            _decode_within(schema, f"spec.versions[{number}].schema.openAPIV3Schema", unknown)
    return obj


def _decode_within(schema: Json, path: str, unknown: list[str], depth: int = 0) -> None:
    """`items` that are no schema count as none; in an array as an empty list, which is refused. Differs from
    kube-apiserver: there is a limit to the depth.
    """
    if depth > _DEPTH_MAX:
        raise ValueError(f"a schema of more than {_DEPTH_MAX} levels at {path}")
    schema.update({part: whole_numbers(schema[part]) for part in _VALUES if part in schema})
    items = schema.get("items")
    if isinstance(items, dict):
        schema["items"] = _decode_schema(items, f"{path}.items", unknown, depth + 1)
    elif not items or not isinstance(items, list):
        schema.pop("items", None)
        if items is not None and schema.get("type") == "array":
            schema["items"] = []
    for part, kinds in _LOOSE.items():
        if schema.get(part) is not None and not isinstance(schema[part], kinds):
            raise (
                WrongType("[]JSON", schema[part], f"{path}.{part}")
                if part == "enum"
                else ValueError("boolean or JSON schema expected")
            )
        if isinstance(schema.get(part), dict):
            schema[part] = _decode_schema(schema[part], f"{path}.{part}", unknown, depth + 1)
    for part in _SCHEMAS:
        for number, inner in enumerate(schema.get(part) or []):
            _decode_within(inner, f"{path}.{part}[{number}]", unknown, depth + 1)
    for part in _SCHEMA_MAPS:
        for name, inner in (schema.get(part) or {}).items():
            _decode_within(inner, f"{path}.{part}[{name}]", unknown, depth + 1)
    if schema.get("not"):
        _decode_within(schema["not"], f"{path}.not", unknown, depth + 1)


def _decode_schema(value: Any, path: str, unknown: list[str], depth: int) -> Json:
    found: list[str] = []
    schema = decode(MESSAGES["JSONSchemaProps"], value, found)
    unknown += [f"{path}.{name}" for name in found]
    _decode_within(schema, path, unknown, depth)
    return schema


CUSTOM_RESOURCE_DEFINITIONS: Final = Resource(
    group="apiextensions.k8s.io",
    kind="CustomResourceDefinition",
    plural="customresourcedefinitions",
    namespaced=False,
    short_names=("crd", "crds"),
    categories=("api-extensions",),
    message=MESSAGES["CustomResourceDefinition"],
    status=Status.WITH_METADATA,
    put_without_version=False,
    decode=_decode,
    bare_finalizers=True,
    delete=lifecycle.delete,
    default=lifecycle.default,
    prepare_create=lifecycle.prepare_create,
    prepare_update=lifecycle.prepare_update,
    validate=definition_validation.validate,
    validate_create=definition_validation.validate_create,
    validate_update=definition_validation.validate_update,
    warnings=definition_validation.warnings,
)
