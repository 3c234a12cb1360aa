"""Values and places by the OpenAPI documents of a server: every field that the real one has may be written to, whatever
ours knows.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any, Final

from tests.differential import edge_values as edges
from tests.differential.steps import Edit

Json = dict[str, Any]

_DEPTH_MAX: Final = 4
_PART_OF: Final = "#/components/schemas/"
_KIND: Final = "x-kubernetes-group-version-kind"
_NOT_HERE: Final = ("apiVersion", "kind", "metadata")
"""At the root: `edge_values.metadata_edit` has the metadata, and what an object is stays."""
UNREAD: Final = {
    "PodSpec": (
        *("dnsConfig", "dnsPolicy", "hostAliases", "hostIPC", "hostPID", "hostUsers", "hostnameOverride", "os"),
        *("readinessGates", "resourceClaims", "setHostnameAsFQDN", "shareProcessNamespace", "imagePullSecrets"),
    ),
    "Container": (
        *("env", "envFrom", "lifecycle", "livenessProbe", "ports", "readinessProbe", "resizePolicy"),
        *("restartPolicyRules", "startupProbe"),
    ),
    "PodSecurityContext": (
        *("appArmorProfile", "runAsGroup", "runAsUser", "seLinuxOptions", "seccompProfile", "supplementalGroups"),
        *("supplementalGroupsPolicy", "sysctls", "windowsOptions"),
    ),
    "SecurityContext": (
        *("allowPrivilegeEscalation", "appArmorProfile", "procMount", "runAsGroup", "runAsUser", "seccompProfile"),
        "windowsOptions",
    ),
    "ResourceRequirements": ("claims",),
    "PodStatus": ("extendedResourceClaimStatus", "hostIP", "hostIPs", "podIP", "podIPs", "resourceClaimStatuses"),
    "ContainerStatus": ("allocatedResourcesStatus", "user"),
}
"""Fields of a pod that ours checks by their types alone, since nothing here reads them: they are not compared."""
_USUAL: Final = (
    "a",
    "b",
    "x",
    "a-b",
    "/a",
    "/x/y",
    "example.com/x",
    "10",
    "1Gi",
    "100m",
    "10.0.0.1",
    "http",
    "25%",
    "A_B",
)
_COUNTS: Final = (0, 1, 2, 3, 80, 600, 65536, -1)


class Schemas:
    """Those of some kinds. documents: of /openapi/v3, one for each group and version."""

    def __init__(self, documents: Iterable[Json]) -> None:
        self._parts: dict[str, Json] = {}
        for document in documents:
            self._parts.update(document["components"]["schemas"])
        for name, part in self._parts.items():
            for field in UNREAD.get(name.rpartition(".")[2], ()):
                part.get("properties", {}).pop(field, None)
        self._kinds = {
            (f"{kind['group']}/{kind['version']}" if kind["group"] else kind["version"], kind["kind"]): part
            for part in self._parts.values()
            for kind in part.get(_KIND, ())
        }

    @classmethod
    def of_server(cls, get: Callable[[str], Json], apis: Iterable[str]) -> Schemas:
        """get: of a path. apis: group and version, as objects name them."""
        paths = get("/openapi/v3")["paths"]
        roots = sorted({f"apis/{api}" if "/" in api else f"api/{api}" for api in apis})
        found = [get(paths[root]["serverRelativeURL"]) for root in roots if root in paths]
        return cls(
            document for document in found if isinstance(document, dict)
        )  # (a kind may be about to be published)

    @property
    def kinds(self) -> set[tuple[str, str]]:
        """apiVersion and kind of each."""
        return set(self._kinds)

    def edit(self, randomness: random.Random, api: str, kind: str) -> Edit:
        """A place somewhere in an object of the kind, and a value that its schema takes, or nearly."""
        schema = self._resolved(self._kinds[api, kind])
        place: tuple[str | int, ...] = ()
        while not place or randomness.random() < 0.8:
            step = self._step(randomness, schema, at_root=not place)
            if step is None:
                break
            part, schema = step
            place = (*place, part)
        value = edges.value(randomness) if randomness.random() < 0.15 else self._value(randomness, schema, 0)
        return Edit(place, value, grows=True)

    def _step(self, randomness: random.Random, schema: Json, *, at_root: bool) -> tuple[str | int, Json] | None:
        names = [name for name in schema.get("properties", {}) if not (at_root and name in _NOT_HERE)]
        if names:
            name = randomness.choice(sorted(names))
            return name, self._resolved(schema["properties"][name])
        if "items" in schema:
            return 0, self._resolved(schema["items"])
        if isinstance(schema.get("additionalProperties"), dict):
            return randomness.choice(_USUAL[:3]), self._resolved(schema["additionalProperties"])
        return None

    def _value(self, randomness: random.Random, schema: Json, depth: int) -> Any:
        properties = schema.get("properties")
        if properties:
            return self._object(randomness, schema, depth)
        if "items" in schema:
            count = randomness.choice((0, 1, 1, 2)) if depth < _DEPTH_MAX else 0
            return [self._value(randomness, self._resolved(schema["items"]), depth + 1) for _ in range(count)]
        if isinstance(schema.get("additionalProperties"), dict):
            inner = self._resolved(schema["additionalProperties"])
            return {
                name: self._value(randomness, inner, depth + 1)
                for name in randomness.sample(_USUAL[:5], randomness.choice((0, 1, 2)))
            }
        return _scalar(randomness, schema)

    def _object(self, randomness: random.Random, schema: Json, depth: int) -> Json:
        """What it needs, and some of the rest."""
        properties = schema["properties"]
        names = set(schema.get("required", ()))
        if depth < _DEPTH_MAX:
            names |= set(
                randomness.sample(sorted(properties), min(len(properties), randomness.choice((0, 1, 1, 2, 3))))
            )
        return {
            name: self._value(randomness, self._resolved(properties[name]), depth + 1)
            for name in sorted(names & set(properties))
        }

    def _resolved(self, schema: Json) -> Json:
        """Without references, and without the lists of one schema around them."""
        while "$ref" in schema or len(schema.get("allOf", ())) == 1:
            schema = self._parts[schema["$ref"].removeprefix(_PART_OF)] if "$ref" in schema else schema["allOf"][0]
        return schema


def _scalar(randomness: random.Random, schema: Json) -> Any:
    if "enum" in schema and randomness.random() < 0.9:
        return randomness.choice(schema["enum"])
    match schema.get("type"), schema.get("format"):
        case "boolean", _:
            return randomness.random() < 0.5
        case (("integer" | "number"), _):
            return randomness.choice(_COUNTS if randomness.random() < 0.8 else edges.NUMBERS)
        case "string", "date-time":
            return "2024-01-02T03:04:05Z"
        case "string", "byte":
            return "AAEC"
        case None, _ if "oneOf" in schema:
            return _scalar(randomness, randomness.choice(schema["oneOf"]))
        case "object", _:
            return {"a": "b"}
    return randomness.choice(_USUAL if randomness.random() < 0.7 else edges.TEXTS)
