"""Warnings about new pods with a valid but odd placement, volume or amount. Updates get none: machines make them."""

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
_WHOLE_BYTES: Final = ("memory", "ephemeral-storage")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_NEGATIVE: Final = (
    "spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
)
"""For templates: a pod's value has been made 1."""
_IN_HOSTNAME: Final = "the Pod's hostname"
_NULL_SELECTOR: Final = "a null labelSelector results in matching no pod"


def warnings(pod: Json, old: Json | None) -> Iterator[str]:
    if old is None:
        yield from names_warnings(pod["metadata"], _IN_HOSTNAME)
        yield from of_pods(pod["spec"])


def names_warnings(meta: Json, where: str) -> list[str]:
    """where: the name appears, as the text has it."""
    wrong = names.dns_label(meta.get("name", ""))
    message = (
        f"metadata.name: this is used in {where}, which can result in surprising behavior; a DNS label is recommended"
    )
    return [f"{message}: [{' '.join(wrong)}]"] if meta.get("name") and wrong else []


def of_pods(spec: Json) -> Iterator[str]:
    """Also of those that a template makes."""
    if spec["terminationGracePeriodSeconds"] < 0:
        yield _NEGATIVE
    yield from _of_placement(spec)
    for field, volume in checks.each(spec.get("volumes"), "spec.volumes"):
        yield from _of_volume(volume, field)
    yield from _of_amounts({"overhead": spec.get("overhead")}, "spec")
    for part in ("initContainers", "containers", "ephemeralContainers"):
        for field, container in checks.each(spec.get(part), f"spec.{part}"):
            yield from _of_amounts(container["resources"], f"{field}.resources")


def _of_placement(spec: Json) -> Iterator[str]:
    for key in spec.get("nodeSelector") or {}:
        yield from selectors.outdated(key, f"spec.nodeSelector[{key}]", alone=True)
    affinity = spec.get("affinity") or {}
    node, field = affinity.get("nodeAffinity") or {}, "spec.affinity.nodeAffinity"
    if _REQUIRED in node:
        yield from selectors.node_warnings(node[_REQUIRED], f"{field}.{_REQUIRED}")
    for at, term in checks.each(node.get(_PREFERRED), f"{field}.{_PREFERRED}"):
        yield from selectors.term_warnings(term["preference"], f"{at}.preference")
        yield from selectors.value_warnings(term["preference"], f"{at}.preference")
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


def _of_volume(volume: Json, field: str) -> Iterator[str]:
    yield from volumesources.warnings(volume, field)
    for source, since in _OLD_VOLUMES.items():
        if source in volume:
            yield f"{field}.{source}: deprecated in {since}"
    template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
    if template is not None:
        yield from claimspec.warnings(template["spec"], f"{field}.ephemeral.volumeClaimTemplate.spec")


def _of_amounts(resources: Json, field: str) -> Iterator[str]:
    for part in ("limits", "requests", "overhead"):
        for name, text in (resources.get(part) or {}).items():
            if name in _WHOLE_BYTES and checks.is_fractional(text):
                yield f'{field}.{part}[{name}]: fractional byte value "{text}" is invalid, must be an integer'
