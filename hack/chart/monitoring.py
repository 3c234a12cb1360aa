"""Takes alerts and dashboards into the chart: files as they are, since Helm would read their own braces, and objects
that name them.
"""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from hack.chart.emit import More, Scalar, document
from hack.chart.parts import Json

FOLDER = "monitoring"
"""In deploy/."""
RUNBOOKS = "Before each runbook_url, such as https://git.example.com/storage/mooring/-/blob/main/"
_NAMESPACE = "{{ .Values.monitoring.namespace }}"
_VALUES = {"PrometheusRule": "rules", "ConfigMap": "dashboards"}


def files(objects: list[Json]) -> dict[str, str]:
    """What the objects hold, by its path in the chart."""
    return {path: text for one in objects for path, text in _held(one)}


def template(objects: list[Json]) -> str:
    return "".join(_object(one) for one in objects)


def labels(objects: list[Json], kind: str) -> Json | None:
    """Those that all objects of the kind have; None when there is no such object."""
    found: list[Json] = [one["metadata"].get("labels", {}) for one in objects if one["kind"] == kind]
    assert all(one == found[0] for one in found)
    return found[0] if found else None


def _held(obj: Json) -> Iterator[tuple[str, str]]:
    if obj["kind"] == "PrometheusRule":
        yield "files/rules.yaml", yaml.safe_dump(obj["spec"], sort_keys=False, width=1000)
    else:
        assert obj["kind"] == "ConfigMap", obj["kind"]
        for name, text in obj["data"].items():
            yield f"files/dashboards/{name}", text


def _object(obj: Json) -> str:
    own = f".Values.monitoring.{_VALUES[obj['kind']]}"
    meta = {"name": obj["metadata"]["name"], "namespace": _NAMESPACE, "labels": {"": More(f"{own}.labels")}}
    made = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": meta}
    if obj["kind"] == "PrometheusRule":
        made["spec"] = Scalar(
            '$.Files.Get "files/rules.yaml" | replace "runbook_url: " '
            f'(printf "runbook_url: %s" {own}.runbooks) | fromYaml | toJson'
        )
    else:
        made["data"] = {name: Scalar(f'$.Files.Get "files/dashboards/{name}" | toJson') for name in obj["data"]}
    return document(made, f"{own}.enabled")
