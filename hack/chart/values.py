"""The values of the chart: defaults are what the kustomizations have, and the schema refuses a name that no template
reads.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from hack.chart import monitoring
from hack.chart.parts import SECRETS, Json, key, workload

_MAP: Json = {"type": "object"}
_LIST: Json = {"type": "array"}
_TEXT: Json = {"type": "string"}
_FLAG: Json = {"type": "boolean"}
_COUNT: Json = {"type": "integer", "minimum": 0}
_NAME = r"^[a-zA-Z0-9]([-a-zA-Z0-9.]{0,61}[a-zA-Z0-9])?$"


@dataclass(frozen=True)
class Value:
    """One that people set. about: its comment."""

    default: Any
    schema: Json
    about: str = ""


@dataclass
class Group:
    """Values under one name."""

    about: str = ""
    values: dict[str, Value | Group] = field(default_factory=dict)


def values(parts: dict[str, list[Json]], watched: list[Json], granted: list[Json], version: str) -> Group:
    """All of them, from what kustomize builds. parts: of each. watched: of the monitoring. granted: of the secrets."""
    images = sorted({image for objects in parts.values() for image in _images(objects)})
    whole = Group(values={**_common(images, version), "monitoring": _monitoring(watched), SECRETS: _secrets(granted)})
    told: set[str] = set()
    for part, objects in parts.items():
        made = workload(objects)
        group = _of_workload(part, made, _has(objects, "PodDisruptionBudget")) if made else _of_driver(part, objects)
        group.values = {"enabled": Value(part in ("csidriver", "node", "controller"), _FLAG), **group.values}
        _tell_once(group, told)
        whole.values[key(part)] = group
    return whole


def _images(objects: list[Json]) -> Iterator[str]:
    made = workload(objects)
    for one in made["spec"]["template"]["spec"]["containers"] if made else ():
        if one["name"] != "driver":
            yield one["image"].partition(":")[0]


def _has(objects: list[Json], kind: str) -> bool:
    return any(one["kind"] == kind for one in objects)


def _common(images: list[str], version: str) -> dict[str, Value | Group]:
    overrides = {**_MAP, "propertyNames": {"enum": images}, "additionalProperties": _TEXT}
    return {
        "driver": Group(
            "Your driver.",
            {
                "name": Value("csi.example.com", {**_TEXT, "pattern": _NAME}, "As GetPluginInfo gives it."),
                "image": Value("", _TEXT, "With its tag or digest. Parts with the driver in them need it."),
                "socket": Value(
                    "csi.sock",
                    {**_TEXT, "minLength": 1},
                    "Its file in /csi, where each driver's container finds the folder.",
                ),
            },
        ),
        "namePrefix": Value(
            "",
            _TEXT,
            "Before the names of all objects, such as `second-`: for a second release, since ClusterRoles are "
            "in no namespace.",
        ),
        "images": Group(
            "Mooring's images, which you build from the project's Containerfile.",
            {
                "registry": Value("", _TEXT, "The registry and path before their names, without the last slash."),
                "tag": Value(version, _TEXT),
                "instead": Value(
                    {}, overrides, f"Whole references for single ones, with a digest for one: {', '.join(images)}."
                ),
                "pullPolicy": Value("", {"enum": ["", "Always", "IfNotPresent", "Never"]}),
                "pullSecrets": Value([], _LIST, "As in a pod: a list of maps with a name."),
            },
        ),
        "kubeletFolder": Value("/var/lib/kubelet", {**_TEXT, "pattern": "^/"}, "The kubelet's root folder."),
        "storageCapacity": Value(
            True,
            _FLAG,
            "False for a driver without GET_CAPACITY: no pod would find a node. Sets the CSIDriver's field and "
            "the provisioner's flags.",
        ),
        "networkPolicy": Group(
            "", {"enabled": Value(True, _FLAG, "Only the namespace of the monitoring reaches the ports.")}
        ),
    }


def _monitoring(watched: list[Json]) -> Group:
    serving: dict[str, Value | Group] = {
        "enabled": Value(False, _FLAG, "A headless Service and a ServiceMonitor for each part with metrics."),
        "interval": Value("30s", _TEXT),
        "labels": Value({}, _MAP, "The labels by which your Prometheus selects ServiceMonitors."),
    }
    found = Group(
        "", {"namespace": Value("monitoring", _TEXT, "Where Prometheus is."), "serviceMonitor": Group("", serving)}
    )
    for name, kind, about in (
        ("rules", "PrometheusRule", "The alerts, in the namespace above. One release of a cluster is enough."),
        ("dashboards", "ConfigMap", "Grafana's dashboards, there too. The label is what its sidecar looks for."),
    ):
        labels = monitoring.labels(watched, kind)
        if labels is not None:
            found.values[name] = Group("", {"enabled": Value(False, _FLAG, about), "labels": Value(labels, _MAP)})
            if kind == "PrometheusRule":
                found.values[name].values["runbooks"] = Value("", _TEXT, monitoring.RUNBOOKS)
    return found


def _secrets(granted: list[Json]) -> Group:
    role, binding = ({one["kind"]: one for one in granted}[kind] for kind in ("Role", "RoleBinding"))
    accounts = (
        "csi-controller of controller, statefulSet and allInOne, mooring-controller of oneProcess, or a sidecar's, "
        "as csi-attacher"
    )
    some = {**_LIST, "items": {**_TEXT, "minLength": 1}, "minItems": 1}
    return Group(
        "The secrets that classes and volumes name, as in deploy/secrets: the sidecars may read these, and no others.",
        {
            "enabled": Value(False, _FLAG),
            "namespace": Value(
                role["metadata"]["namespace"], _TEXT, "For these secrets alone; it exists before the release."
            ),
            "names": Value(role["rules"][0]["resourceNames"], some, "At least one: an empty list would mean all."),
            "account": Value(binding["subjects"][0]["name"], _TEXT, f"Who reads them: {accounts}."),
        },
    )


def _of_driver(part: str, objects: list[Json]) -> Group:
    (obj,) = objects
    kinds: dict[type, Json] = {bool: _FLAG, str: _TEXT, list: _LIST}
    spec = {name: Value(value, kinds[type(value)]) for name, value in obj["spec"].items() if name != "storageCapacity"}
    return Group(f"The CSIDriver object, as in deploy/{part}. Most of it can't be changed later.", {**spec})


def _of_workload(part: str, made: Json, budget: bool) -> Group:
    pod = made["spec"]["template"]["spec"]
    sidecars = {one["name"]: one for one in pod["containers"] if one["name"] != "driver"}
    contexts = [one["securityContext"] for one in sidecars.values()]
    assert all(context == contexts[0] for context in contexts), part
    group = Group(f"A {made['kind']}, as in deploy/{part}.")
    if made["kind"] == "Deployment":
        group.values["replicas"] = Value(made["spec"]["replicas"], _COUNT, "One leads, the others stand by.")
    for enabled in (
        word.removeprefix("--enable=")
        for one in sidecars.values()
        for word in one["args"]
        if word.startswith("--enable=")
    ):
        group.values["controllers"] = Value(
            enabled.split(","), {**_LIST, "items": _TEXT, "minItems": 1}, "Those that the process runs."
        )
    group.values |= {
        "priorityClassName": Value(pod["priorityClassName"], _TEXT),
        "nodeSelector": Value(pod.get("nodeSelector", {}), _MAP),
        "tolerations": Value(pod.get("tolerations", []), _LIST),
        "affinity": Value(
            None, {"type": ["object", "null"]}, "null: each replica on a machine of its own, by preference; {}: none."
        ),
        "topologySpreadConstraints": Value(
            None, {"type": ["array", "null"]}, "null: over the zones, by preference; []: none."
        ),
        "podAnnotations": Value({}, _MAP),
        "podSecurityContext": Value(pod["securityContext"], _MAP),
        "sidecarSecurityContext": Value(contexts[0], _MAP, "Of all containers but the driver's."),
        "resources": Value(
            {name: one["resources"] for name, one in sidecars.items()},
            _each(sidecars, _MAP),
            "By container. The requests are measured.",
        ),
        "extraArgs": Value({name: [] for name in sidecars}, _each(sidecars, _LIST), "Flags, by container."),
        "extraVolumes": Value([], _LIST, "Of the pod."),
    }
    if "affinity" not in pod:
        for name in ("affinity", "topologySpreadConstraints"):
            group.values[name] = Value({"affinity": {}}.get(name, []), _MAP if name == "affinity" else _LIST)
    for driver in (one for one in pod["containers"] if one["name"] == "driver"):
        group.values["driver"] = _of_container(driver)
    if budget:
        most = Value(1, {"type": ["integer", "string"]})
        group.values["disruption"] = Group(
            "", {"enabled": Value(True, _FLAG, "A PodDisruptionBudget."), "maxUnavailable": most}
        )
    return group


def _of_container(driver: Json) -> Group:
    args = f"null: {' '.join(driver['args'])}"
    values: dict[str, Value | Group] = {
        "args": Value(None, {"type": ["array", "null"]}, args),
        "extraEnv": Value([], _LIST),
        "extraVolumeMounts": Value([], _LIST),
        "resources": Value({}, _MAP),
        "securityContext": Value(driver["securityContext"], _MAP),
    }
    return Group("Your driver's container in this pod.", values)


def _each(names: dict[str, Json], schema: Json) -> Json:
    return {**_MAP, "properties": dict.fromkeys(names, schema), "additionalProperties": False}


def _tell_once(group: Group, told: set[str]) -> None:
    """Takes away the comments that an earlier part has."""
    for name, value in group.values.items():
        if isinstance(value, Group):
            _tell_once(value, told)
        elif value.about in told:
            group.values[name] = Value(value.default, value.schema)
        else:
            told.add(value.about)


def as_yaml(group: Group, indent: str = "") -> Iterator[str]:
    """The lines of values.yaml, with comments."""
    for name, value in group.values.items():
        if not indent:
            yield ""
        comment = f"{indent}# "
        yield from textwrap.wrap(
            value.about, 110, initial_indent=comment, subsequent_indent=comment, break_on_hyphens=False
        )
        if isinstance(value, Group):
            yield f"{indent}{name}:"
            yield from as_yaml(value, indent + "  ")
        elif not isinstance(value.default, list | dict):
            yield f"{indent}{name}: {json.dumps(value.default)}"
        else:
            text = yaml.safe_dump({name: value.default}, sort_keys=False, width=1000, default_flow_style=None)
            yield from textwrap.indent(text.rstrip(), indent).splitlines()


def as_schema(group: Group) -> Json:
    """The JSON schema of the group."""
    properties = {
        name: as_schema(value) if isinstance(value, Group) else value.schema for name, value in group.values.items()
    }
    return {"type": "object", "properties": properties, "additionalProperties": False}


def schema_text(group: Group) -> str:
    return (
        json.dumps(
            {"$schema": "http://json-schema.org/draft-07/schema#", "title": "Values", **as_schema(group)}, indent=2
        )
        + "\n"
    )
