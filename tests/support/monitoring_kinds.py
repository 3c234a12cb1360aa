"""The two kinds of the Prometheus operator that the chart makes: the fields that it may set, and no others."""

from __future__ import annotations

from typing import Any, Final

Json = dict[str, Any]

_TEXT: Final[Json] = {"type": "string"}
_MAP: Final[Json] = {"type": "object", "additionalProperties": _TEXT}


def _object(required: tuple[str, ...] = (), **properties: Json) -> Json:
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}


def _list(items: Json) -> Json:
    return {"type": "array", "items": items}


_DURATION: Final[Json] = {
    "type": "string",
    "pattern": r"^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?)$",
}
_RULE: Final = _object(
    ("expr",), alert=_TEXT, record=_TEXT, expr=_TEXT, **{"for": _DURATION}, labels=_MAP, annotations=_MAP
)
_SPECS: Final[dict[str, Json]] = {
    "ServiceMonitor": _object(
        ("selector", "endpoints"),
        selector=_object(matchLabels=_MAP),
        endpoints=_list(_object(port=_TEXT, interval=_DURATION, path=_TEXT)),
    ),
    "PrometheusRule": _object(groups=_list(_object(("name",), name=_TEXT, interval=_DURATION, rules=_list(_RULE)))),
}


def _definition(kind: str, spec: Json) -> Json:
    plural = f"{kind.lower()}s"
    schema = _object(("spec",), spec=spec)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.monitoring.coreos.com"},
        "spec": {
            "group": "monitoring.coreos.com",
            "scope": "Namespaced",
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


MONITORING_CRDS: Final = [_definition(kind, spec) for kind, spec in _SPECS.items()]
