"""A pod's defaults, filled in on every write."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from mooring.apiserver.resource import Json
from mooring.apiserver.rules import checks, claimspec, podresources, volumesources

_POD: Final[Json] = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
}
_CONTAINER: Final[Json] = {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
_PROBE: Final[Json] = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_HTTP: Final[Json] = {"path": "/", "scheme": "HTTP"}
_FILE_MODE: Final = 0o644
_WITH_MODE: Final = ("secret", "configMap", "downwardAPI", "projected")
_TOKEN_LIFE_S: Final = 3600
_UNWELL_S: Final = 300
_UNWELL: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_AGGREGATED: Final = ("cpu", "memory")


def default(pod: Json) -> None:
    spec = pod["spec"]
    default_spec(spec)
    spec["terminationGracePeriodSeconds"] = (
        spec["terminationGracePeriodSeconds"] if spec["terminationGracePeriodSeconds"] >= 0 else 1
    )
    _fill(spec, {"enableServiceLinks": True})
    for container in containers_of(spec):
        _default_of_pod(container, on_host_network=spec.get("hostNetwork", False))
    checks.default_amounts(spec.get("overhead"))
    if "resources" in spec:
        _default_pod_resources(spec)
    _tolerate(spec)
    _default_status(pod["status"])


def default_spec(spec: Json) -> None:
    """The defaults that a pod's spec and a template's share, without the field whose feature is off in
    kube-apiserver.
    """
    spec.pop("schedulingGroup", None)
    _fill(spec, _POD)
    spec.setdefault("securityContext", {})
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for volume in spec.get("volumes") or []:
        _default_volume(volume)
    for container in containers_of(spec):
        _default_container(container)
    for part in ("limits", "requests"):
        checks.default_amounts((spec.get("resources") or {}).get(part))


def containers_of(spec: Json) -> Iterator[Json]:
    for part in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(part) or []


def _fill(obj: Json, defaults: Json) -> None:
    """Sets what is absent or zero."""
    for name, value in defaults.items():
        if obj.get(name) is None or obj[name] == "" or (obj[name] == 0 and isinstance(value, int) and name in _PROBE):
            obj[name] = value


_IMAGE: Final = re.compile(
    r"(?P<name>"
    r"(?:(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*|"
    r"\[[a-fA-F0-9:]+\])(?::[0-9]+)?/)?"
    r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?"
    r"(?:@(?P<digest>[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}))?"
)
_IMAGE_ID: Final = re.compile(r"[a-f0-9]{64}")
_IMAGE_NAME_MAX: Final = 255


def _default_of_pod(container: Json, *, on_host_network: bool) -> None:
    """Beside those of templates: requests follow from limits, ports of the host from the container's."""
    resources = container["resources"]
    if resources.get("limits"):
        resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
    for port in container.get("ports") or []:
        if on_host_network and not port.get("hostPort"):
            port["hostPort"] = port["containerPort"]


def _default_container(container: Json) -> None:
    _fill(container, _CONTAINER)
    container.setdefault("imagePullPolicy", pull_policy(container.get("image", "")))
    for port in container.get("ports") or []:
        _fill(port, {"protocol": "TCP"})
    for variable in container.get("env") or []:
        _default_field((variable.get("valueFrom") or {}).get("fieldRef"))
    _drop_stop_signal(container)
    for name in PROBES:
        if name in container:
            _fill(container[name], _PROBE)
            _default_handler(container[name])
    for handler in (container.get("lifecycle") or {}).values():
        if isinstance(handler, dict):
            _default_handler(handler)
    for part in ("limits", "requests"):
        checks.default_amounts(container["resources"].get(part))


def _drop_stop_signal(container: Json) -> None:
    """Its feature is off in kube-apiserver. A life cycle of nothing else goes with it."""
    if "stopSignal" in (container.get("lifecycle") or {}):
        del container["lifecycle"]["stopSignal"]
        if not container["lifecycle"]:
            del container["lifecycle"]


def pull_policy(image: str) -> str:
    """Always for what may mean another image tomorrow. A text that names no image is not examined."""
    found = _IMAGE.fullmatch(image)
    if found is None or len(_path_of(found["name"])) > _IMAGE_NAME_MAX or _IMAGE_ID.fullmatch(found["name"]):
        return "IfNotPresent"
    return "Always" if found["tag"] == "latest" or not (found["tag"] or found["digest"]) else "IfNotPresent"


def _path_of(name: str) -> str:
    """The image's name in its registry; the usual registry has those without a folder in one of its own."""
    first, slash, rest = name.partition("/")
    if slash and (first == "localhost" or first.lower() != first or not {".", ":"}.isdisjoint(first)):
        return rest if "/" in rest or first not in ("docker.io", "index.docker.io") else f"library/{rest}"
    return name if slash else f"library/{name}"


def _default_pod_resources(spec: Json) -> None:
    """A pod that names limits as a whole asks for what its containers ask for, or else for its limits."""
    resources = spec["resources"]
    limits, requests = dict(resources.get("limits") or {}), dict(resources.get("requests") or {})
    if limits:
        for name, amount in podresources.aggregated(spec).items():
            if name in _AGGREGATED:
                requests.setdefault(name, str(amount))
        for name, limit in limits.items():
            if name in _AGGREGATED:
                requests.setdefault(name, limit)
    resources.update({part: amounts for part, amounts in (("limits", limits), ("requests", requests)) if amounts})


def _default_handler(handler: Json) -> None:
    if "httpGet" in handler:
        _fill(handler["httpGet"], _HTTP)
    if "grpc" in handler:
        _fill(handler["grpc"], {"service": ""})


def _default_field(reference: Any) -> None:
    if reference is not None:
        _fill(reference, {"apiVersion": "v1"})


def _default_volume(volume: Json) -> None:
    if len(volume) == 1:
        volume["emptyDir"] = {}
    volumesources.default(volume)
    for source in _WITH_MODE:
        if source in volume:
            volume[source].setdefault("defaultMode", _FILE_MODE)
    for item in (volume.get("downwardAPI") or {}).get("items") or []:
        _default_field(item.get("fieldRef"))
    for projected in (volume.get("projected") or {}).get("sources") or []:
        for item in (projected.get("downwardAPI") or {}).get("items") or []:
            _default_field(item.get("fieldRef"))
        if "serviceAccountToken" in projected:
            projected["serviceAccountToken"].setdefault("expirationSeconds", _TOKEN_LIFE_S)
    if (volume.get("ephemeral") or {}).get("volumeClaimTemplate"):
        claimspec.default(volume["ephemeral"]["volumeClaimTemplate"]["spec"])
    if "image" in volume:
        volume["image"].setdefault("pullPolicy", pull_policy(volume["image"].get("reference", "")))


def _tolerate(spec: Json) -> None:
    """For five minutes a pod stays on a node that is unwell, unless it says otherwise (admission
    DefaultTolerationSeconds).
    """
    tolerations = spec.get("tolerations") or []
    for key in _UNWELL:
        if not any(
            given.get("key", "") in ("", key) and given.get("effect", "") in ("", "NoExecute") for given in tolerations
        ):
            tolerations.append(
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _UNWELL_S}
            )
    if tolerations:
        spec["tolerations"] = tolerations


def _default_status(status: Json) -> None:
    """One address, told twice."""
    addresses = status.get("podIPs") or []
    if status.get("podIP") and (not addresses or addresses[0]["ip"] != status["podIP"]):
        status["podIPs"] = [{"ip": status["podIP"]}]
    elif addresses:
        status["podIP"] = addresses[0]["ip"]
