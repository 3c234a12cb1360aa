"""Makes templates of what kustomize builds from the folders of deploy/: each object as it is, with values in the places
that people set.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from hack.chart.emit import More, Or, Scalar, Tree, When, document

Json = dict[str, Any]

PARTS = (
    "csidriver",
    "node",
    "controller",
    "statefulset",
    "one-process",
    "all-in-one",
    "attacher",
    "provisioner",
    "resizer",
    "snapshotter",
    "snapshot-controller",
    "attachdetach",
    "binder",
)
"""Folders of deploy/, in the order of values.yaml. The first three are what a driver takes."""
WORKLOADS = ("Deployment", "StatefulSet", "DaemonSet")
SECRETS = "secrets"
"""The folder of deploy/ with the sample of a role."""
NAMESPACE = "storage"
_TEXTS = {
    "csi.example.com": "{{ .Values.driver.name }}",
    "/var/lib/kubelet": "{{ .Values.kubeletFolder }}",
    "csi.sock": "{{ .Values.driver.socket }}",
}
_CAPACITY = ("--enable-capacity", "--capacity-ownerref-level=")


def key(part: str) -> str:
    """Its name among the values."""
    head, *others = {"csidriver": "csi-driver", "statefulset": "stateful-set"}.get(part, part).split("-")
    return head + "".join(word.capitalize() for word in others)


def workload(objects: list[Json]) -> Json | None:
    return next((one for one in objects if one["kind"] in WORKLOADS), None)


def template(part: str, objects: list[Json]) -> str:
    """The file of a part. The namespace is left out: helm makes it, or finds it."""
    own = f".Values.{key(part)}"
    documents = [text for one in objects if one["kind"] != "Namespace" for text in _documents(own, _with_texts(one))]
    documents += _monitor(_with_texts(objects))
    body = "".join(documents)
    return f"{{{{- if {own}.enabled }}}}\n{body}{{{{- end }}}}\n"


def secrets_template(objects: list[Json]) -> str:
    """The file that lets the sidecars read the secrets that people name."""
    own = f".Values.{SECRETS}"
    role, binding = (_with_texts(one) for one in objects if one["kind"] != "Namespace")
    for one in (role, binding):
        one["metadata"] = {"name": _prefixed(one["metadata"]["name"]), "namespace": f"{{{{ {own}.namespace }}}}"}
    (rule,), (subject,) = role["rules"], binding["subjects"]
    rule["resourceNames"] = Tree(f"{own}.names")
    binding["roleRef"]["name"] = _prefixed(binding["roleRef"]["name"])
    subject["name"] = _prefixed(f"{{{{ {own}.account }}}}")
    return "".join(document(one, f"{own}.enabled") for one in (role, binding))


def _documents(own: str, obj: Json) -> Iterator[str]:
    kind = obj["kind"]
    if kind != "CSIDriver":
        obj["metadata"]["name"] = _prefixed(obj["metadata"]["name"])
    for named in (obj.get("roleRef"), *obj.get("subjects", ())):
        if named:
            named["name"] = _prefixed(named["name"])
    condition = ""
    if kind in WORKLOADS:
        _open_workload(own, obj)
    elif kind == "CSIDriver":
        for field in obj["spec"]:
            obj["spec"][field] = (
                Scalar(".Values.storageCapacity") if field == "storageCapacity" else _of_value(obj, own, field)
            )
    elif kind == "PodDisruptionBudget":
        condition = f"{own}.disruption.enabled"
        obj["spec"]["maxUnavailable"] = Scalar(f"{own}.disruption.maxUnavailable")
    elif kind == "NetworkPolicy":
        condition = ".Values.networkPolicy.enabled"
        for rule in obj["spec"].get("ingress", ()):
            (origin,) = rule["from"]
            origin["namespaceSelector"]["matchLabels"] = {
                "kubernetes.io/metadata.name": "{{ .Values.monitoring.namespace }}"
            }
    yield document(obj, condition)


def _of_value(obj: Json, own: str, field: str) -> Scalar | Tree:
    return Tree(f"{own}.{field}") if isinstance(obj["spec"][field], list | dict) else Scalar(f"{own}.{field}")


def _open_workload(own: str, obj: Json) -> None:
    if obj["kind"] == "Deployment":
        obj["spec"]["replicas"] = Scalar(f"{own}.replicas")
    meta, pod = obj["spec"]["template"]["metadata"], obj["spec"]["template"]["spec"]
    meta["annotations"] = Tree(f"{own}.podAnnotations", optional=True)
    if "serviceAccountName" in pod:
        pod["serviceAccountName"] = _prefixed(pod["serviceAccountName"])
    pod["priorityClassName"] = Scalar(f"{own}.priorityClassName", optional=True)
    pod["securityContext"] = Tree(f"{own}.podSecurityContext")
    for field in ("affinity", "topologySpreadConstraints"):
        pod[field] = Or(f"{own}.{field}", pod[field]) if field in pod else Tree(f"{own}.{field}", optional=True)
    for field in ("nodeSelector", "tolerations"):
        pod[field] = Tree(f"{own}.{field}", optional=True)
    pod["imagePullSecrets"] = Tree(".Values.images.pullSecrets", optional=True)
    pod["containers"] = [_container(own, one) for one in pod["containers"]]
    more = f"{own}.extraVolumes"
    pod["volumes"] = [*pod["volumes"], More(more)] if "volumes" in pod else Tree(more, optional=True)


_DRIVER = Scalar(
    'required "which driver? --set driver.image=IMAGE --set driver.name=NAME, as its GetPluginInfo says" '
    ".Values.driver.image"
)


def _container(own: str, container: Json) -> Json:
    name = container["name"]
    made: Json = {"name": name}  # first: an item can't begin with a condition
    if name == "driver":
        made |= {**container, "image": _DRIVER}
        made["args"] = Or(f"{own}.driver.args", container["args"])
        more = f"{own}.driver.extraEnv"
        made["env"] = [*container["env"], More(more)] if "env" in container else Tree(more, optional=True)
        made["resources"] = Tree(f"{own}.driver.resources", optional=True)
        made["securityContext"] = Tree(f"{own}.driver.securityContext")
        made["volumeMounts"] = [*container["volumeMounts"], More(f"{own}.driver.extraVolumeMounts")]
    else:
        image, _, _ = container["image"].partition(":")
        made |= container
        made["image"] = Scalar(f'include "mooring.image" (list . "{image}")')
        made["args"] = [*_args(own, container["args"]), More(f'index {own}.extraArgs "{name}"')]
        made["resources"] = Tree(f'index {own}.resources "{name}"', optional=True)
        made["securityContext"] = Tree(f"{own}.sidecarSecurityContext")
    made["imagePullPolicy"] = Scalar(".Values.images.pullPolicy", optional=True)
    return made


def _args(own: str, words: list[str]) -> Iterator[str | When]:
    for word in words:
        if word.startswith(_CAPACITY):
            yield When(".Values.storageCapacity", [word])
        elif word.startswith("--enable="):
            yield f"--enable={{{{ join `,` {own}.controllers }}}}"
        else:
            yield word


def _monitor(objects: list[Json]) -> Iterator[str]:
    """A headless Service and a ServiceMonitor for the ports that the network policy opens to monitoring."""
    policy = next((one for one in objects if one["kind"] == "NetworkPolicy"), None)
    names = [port["port"] for rule in (policy or {}).get("spec", {}).get("ingress", ()) for port in rule["ports"]]
    made = workload(objects)
    if not names or not made:
        return
    numbers = {
        port["name"]: port["containerPort"]
        for one in made["spec"]["template"]["spec"]["containers"]
        for port in one.get("ports", ())
    }
    labels = made["spec"]["template"]["metadata"]["labels"]
    meta = {"name": _prefixed(made["metadata"]["name"]), "namespace": made["metadata"]["namespace"], "labels": labels}
    ports = [{"name": name, "port": numbers[name], "targetPort": name} for name in names]
    condition = ".Values.monitoring.serviceMonitor.enabled"
    spec = {"clusterIP": "None", "selector": labels, "ports": ports}
    yield document({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}, condition)
    own = {**meta, "labels": {**labels, "": More(".Values.monitoring.serviceMonitor.labels")}}
    endpoints = [{"port": name, "interval": Scalar(".Values.monitoring.serviceMonitor.interval")} for name in names]
    yield document(
        {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "ServiceMonitor",
            "metadata": own,
            "spec": {"selector": {"matchLabels": labels}, "endpoints": endpoints},
        },
        condition,
    )


def _prefixed(name: str) -> str:
    return f"{{{{ .Values.namePrefix }}}}{name}"


def _with_texts(value: Any) -> Any:
    """A copy with values in the place of the names that people edit."""
    if isinstance(value, dict):
        return {
            name: "{{ .Release.Namespace }}" if (name, inner) == ("namespace", NAMESPACE) else _with_texts(inner)
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [_with_texts(inner) for inner in value]
    if isinstance(value, str):
        assert "{{" not in value, value
        return re.sub("|".join(map(re.escape, _TEXTS)), lambda found: _TEXTS[found[0]], value)
    return value
