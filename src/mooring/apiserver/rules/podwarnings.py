"""Warnings about new pods that are valid and odd. Updates get none: machines make them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mooring.api import names
from mooring.apiserver.resource import Json
from mooring.apiserver.rules import checks, claimspec, selectors, volumesources

_OLD_VOLUMES: Final = {
    "gitRepo": "v1.11, and disabled by default in v1.33+",
    "quobyte": "v1.22, non-functional in v1.25+",
    "flocker": "v1.22, non-functional in v1.25+",
}
_OLD_ANNOTATIONS: Final = (
    ("scheduler.alpha.kubernetes.io/critical-pod", "non-functional in v1.16+", "priorityClassName"),
    ("seccomp.security.alpha.kubernetes.io/pod", "non-functional in v1.27+", "seccompProfile"),
    ("container.apparmor.security.beta.kubernetes.io/", "deprecated since v1.30", "appArmorProfile"),
)
_WHOLE_BYTES: Final = ("memory", "ephemeral-storage")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_NEGATIVE: Final = "spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
"""For templates: a pod's value has been made 1."""
_NULL_SELECTOR: Final = "a null labelSelector results in matching no pod"


def warnings(pod: Json, old: Json | None) -> list[str]:
    if old is not None:
        return []
    spec = pod["spec"]
    return [
        *_of_metadata(pod["metadata"]),
        *([_NEGATIVE] if spec["terminationGracePeriodSeconds"] < 0 else ()),
        *_of_placement(spec),
        *_of_lists(spec),
        *(text for number, volume in enumerate(spec.get("volumes") or []) for text in _of_volume(volume, f"spec.volumes[{number}]")),
        *_of_containers(spec),
    ]


def _of_metadata(meta: Json) -> Iterator[str]:
    wrong = names.dns_label(meta.get("name", ""))
    if meta.get("name") and wrong:
        message = "this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended"
        yield f"metadata.name: {message}: [{', '.join(wrong)}]"
    for key in meta.get("annotations") or {}:
        for prefix, since, field in _OLD_ANNOTATIONS:
            if key == prefix or (prefix.endswith("/") and key.startswith(prefix)):
                yield f'metadata.annotations[{key}]: {since}; use the "{field}" field instead'


def _of_placement(spec: Json) -> Iterator[str]:
    for key in spec.get("nodeSelector") or {}:
        yield from selectors.outdated(key, f"spec.nodeSelector[{key}]", alone=True)
    affinity = spec.get("affinity") or {}
    node, field = affinity.get("nodeAffinity") or {}, "spec.affinity.nodeAffinity"
    if _REQUIRED in node:
        yield from selectors.node_warnings(node[_REQUIRED], f"{field}.{_REQUIRED}")
    for number, term in enumerate(node.get(_PREFERRED) or []):
        yield from selectors.term_warnings(term["preference"], f"{field}.{_PREFERRED}[{number}].preference")
    for part in ("podAffinity", "podAntiAffinity"):
        for at, term in checks.each((affinity.get(part) or {}).get(_REQUIRED), f"spec.affinity.{part}.{_REQUIRED}"):
            if "labelSelector" not in term:
                yield f"{at}.labelSelector: {_NULL_SELECTOR}"
        for at, term in checks.each((affinity.get(part) or {}).get(_PREFERRED), f"spec.affinity.{part}.{_PREFERRED}"):
            if "labelSelector" not in term["podAffinityTerm"]:
                yield f"{at}.podAffinityTerm.labelSelector: {_NULL_SELECTOR}"
    for field, constraint in checks.each(spec.get("topologySpreadConstraints"), "spec.topologySpreadConstraints"):
        yield from selectors.outdated(constraint["topologyKey"], f"{field}.topologyKey")
        if "labelSelector" not in constraint:
            yield f"{field}.labelSelector: {_NULL_SELECTOR}"


def _of_lists(spec: Json) -> Iterator[str]:
    seen: set[str] = set()
    for number, secret in enumerate(spec.get("imagePullSecrets") or []):
        name, field = secret.get("name", ""), f"spec.imagePullSecrets[{number}].name"
        if not name:
            yield f'{field}: invalid empty name ""'
        elif name in seen:
            yield f'{field}: duplicate name "{name}"'
        seen.add(name)
    addresses = [alias["ip"] for alias in spec.get("hostAliases") or []]
    yield from (f'spec.hostAliases[{number}].ip: duplicate ip "{addresses[number]}"' for number in sorted(checks.repeated(addresses)))


def _of_volume(volume: Json, field: str) -> Iterator[str]:
    yield from volumesources.warnings(volume, field)
    for source, since in _OLD_VOLUMES.items():
        if source in volume:
            yield f"{field}.{source}: deprecated in {since}"
    template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
    if template is not None:
        yield from claimspec.warnings(template["spec"], f"{field}.ephemeral.volumeClaimTemplate.spec")


def _of_containers(spec: Json) -> Iterator[str]:
    ports: dict[tuple[int, str], list[tuple[str, Json]]] = {}
    for part in ("initContainers", "containers"):
        for field, container in checks.each(spec.get(part), f"spec.{part}"):
            yield from _of_amounts(container["resources"], f"{field}.resources")
            yield from _of_variables(container, field)
            for at, port in checks.each(container.get("ports"), f"{field}.ports"):
                earlier = ports.setdefault((port["containerPort"], port["protocol"]), [])
                yield from _of_port(port, at, earlier)
                earlier.append((at, port))


def _of_amounts(resources: Json, field: str) -> Iterator[str]:
    for part in ("limits", "requests"):
        for name, text in (resources.get(part) or {}).items():
            if name in _WHOLE_BYTES and checks.is_fractional(text):
                yield f'{field}.{part}[{name}]: fractional byte value "{text}" is invalid, must be an integer'


def _of_variables(container: Json, field: str) -> Iterator[str]:
    seen: set[str] = set()
    for number, variable in enumerate(container.get("env") or []):
        name = variable["name"]
        if name in seen and f"$({name})" not in variable.get("value", ""):
            yield f'{field}.env[{number}]: hides previous definition of "{name}", which may be dropped when using apply'
        seen.add(name)


def _of_port(port: Json, field: str, earlier: list[tuple[str, Json]]) -> Iterator[str]:
    place = (port.get("hostIP", ""), port.get("hostPort", 0))
    for other_field, other in earlier:
        same = place == (other.get("hostIP", ""), other.get("hostPort", 0))
        if same or not (port.get("hostPort") and other.get("hostPort")):
            yield f"{field}: {'duplicate' if same else 'overlapping'} port definition with {other_field}"
            break
    if port.get("hostIP") and not port.get("hostPort"):
        yield f"{field}: hostIP set without hostPort"
