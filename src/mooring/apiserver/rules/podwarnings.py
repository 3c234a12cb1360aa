"""Warnings about new pods that are valid and odd. Updates get none: machines make them."""

from __future__ import annotations

import ipaddress
from bisect import bisect_left
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
_NEGATIVE: Final = (
    "spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
)
"""For templates: a pod's value has been made 1."""
_IN_HOSTNAME: Final = "the Pod's hostname"
_NULL_SELECTOR: Final = "a null labelSelector results in matching no pod"


def warnings(pod: Json, old: Json | None) -> Iterator[str]:
    if old is None:
        yield from names_warnings(pod["metadata"], _IN_HOSTNAME)
        yield from of_pods(pod["metadata"], pod["spec"])


def names_warnings(meta: Json, where: str) -> list[str]:
    """where: the name appears, as the text has it."""
    wrong = names.dns_label(meta.get("name", ""))
    message = (
        f"metadata.name: this is used in {where}, which can result in surprising behavior; a DNS label is recommended"
    )
    return [f"{message}: [{' '.join(wrong)}]"] if meta.get("name") and wrong else []


def of_pods(meta: Json, spec: Json, root: str = "") -> Iterator[str]:
    """Also of those that a template makes. root: of that, for fields that a warning mentions. One by one: ports and files that stand in
    one another's way are told in pairs.
    """
    yield from _of_metadata(meta)
    if spec["terminationGracePeriodSeconds"] < 0:
        yield _NEGATIVE
    yield from _of_placement(spec)
    yield from _of_lists(spec)
    for field, volume in checks.each(spec.get("volumes"), "spec.volumes"):
        yield from _of_volume(volume, field)
    yield from _of_paths(spec.get("volumes") or [])
    yield from _of_amounts({"overhead": spec.get("overhead")}, "spec")
    yield from _of_containers(spec, root)


def _of_metadata(meta: Json) -> Iterator[str]:
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


def _of_lists(spec: Json) -> Iterator[str]:
    seen: set[str] = set()
    for number, secret in enumerate(spec.get("imagePullSecrets") or []):
        name, field = secret.get("name", ""), f"spec.imagePullSecrets[{number}].name"
        if not name:
            yield f'{field}: invalid empty name ""'
        if name in seen:
            yield f'{field}: duplicate name "{name}"'
        seen.add(name)
    addresses = [alias["ip"] for alias in spec.get("hostAliases") or []]
    yield from (
        f'spec.hostAliases[{number}].ip: duplicate ip "{addresses[number]}"'
        for number in sorted(checks.repeated(addresses))
    )
    servers = (spec.get("dnsConfig") or {}).get("nameservers")
    for field, text in (
        *checks.each(servers, "spec.dnsConfig.nameservers"),
        *checks.each(addresses, "spec.hostAliases"),
    ):
        plain = str(ipaddress.ip_address(text))
        if ":" in plain and plain != text:
            at = f"{field}.ip" if field.startswith("spec.hostAliases") else field
            yield f'{at}: IPv6 address "{text}" should be in RFC 5952 canonical format ("{plain}")'


def _of_volume(volume: Json, field: str) -> Iterator[str]:
    yield from volumesources.warnings(volume, field)
    for source, since in _OLD_VOLUMES.items():
        if source in volume:
            yield f"{field}.{source}: deprecated in {since}"
    template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
    if template is not None:
        yield from claimspec.warnings(template["spec"], f"{field}.ephemeral.volumeClaimTemplate.spec")


_Path = tuple[str, str]
"""Of a file, and where it comes from."""
_FILES: Final = (("configMap", 'ConfigMap "{}"'), ("secret", 'Secret "{}"'), ("downwardAPI", "DownwardAPI"))
"""Sources of files, and what they are called."""


def _of_paths(volumes: list[Json]) -> Iterator[str]:
    """Files of a volume that stand in one another's way."""
    for volume in volumes:
        for source, called in _FILES:
            content = volume.get(source) or {}
            name = content.get("secretName" if source == "secret" else "name", "")
            given: list[_Path] = [(item["path"], "") for item in content.get("items") or ()]
            yield from _overlapping(given, f'volume "{volume["name"]}" ({called.format(name)})')
        sources = (volume.get("projected") or {}).get("sources") or ()
        yield from (
            f'volume "{volume["name"]}" (Projected) has no sources provided' for source in sources if not source
        )
        given = [path for source in sources for path in _paths_of(source)]
        yield from _overlapping(given, f'volume "{volume["name"]}" (Projected)')


def _paths_of(source: Json) -> list[_Path]:
    """Of the first that names some."""
    for part, called in _FILES:
        content = source.get(part) or {}
        if content.get("items"):
            return [(item["path"], called.format(content.get("name", ""))) for item in content["items"]]
    return [(source["serviceAccountToken"]["path"], "ServiceAccountToken")] if "serviceAccountToken" in source else []


_ORDER: Final = {0: "\1\1", 1: "\1\2", ord("/"): "\0"}
"""Puts a folder's files right behind it, before its neighbours: nothing sorts before a slash."""


def _overlapping(given: list[_Path], volume: str) -> Iterator[str]:
    paths = [path.rstrip("/") for path, _ in given]
    for number, earlier in _overlaps(paths):
        told, other = ((paths[place], given[place][1]) for place in (number, earlier))
        yield f"{volume}: overlapping paths: {_told(*told)} with {_told(*other)}"


def _overlaps(paths: list[str]) -> Iterator[tuple[int, int]]:
    """The numbers of two that are the same file, or of which one is above the other: the later and the earlier, in this order."""
    keys = {number: f"{path}/".translate(_ORDER) for number, path in enumerate(paths) if path}
    ordered = sorted(keys, key=keys.__getitem__)
    above: dict[int, int | None] = {}
    folders: list[int] = []
    for number in ordered:
        while folders and not keys[number].startswith(keys[folders[-1]]):
            folders.pop()
        above[number] = folders[-1] if folders else None
        folders.append(number)
    starts = [keys[number] for number in ordered]
    for number, key in keys.items():
        met = set(ordered[bisect_left(starts, key) : bisect_left(starts, f"{key[:-1]}\1")])  # the same, and all below
        other = above[number]
        while other is not None:
            met.add(other)
            other = above[other]
        yield from ((number, earlier) for earlier in sorted(met) if earlier < number)


def _told(path: str, source: str) -> str:
    return f'"{path}" ({source})' if source else f'"{path}"'


def _of_containers(spec: Json, root: str) -> Iterator[str]:
    ports: dict[tuple[int, str], _Ports] = {}
    named: dict[str, str] = {}
    for part in ("initContainers", "containers", "ephemeralContainers"):
        for field, container in checks.each(spec.get(part), f"spec.{part}"):
            yield from _of_amounts(container["resources"], f"{field}.resources")
            yield from _of_variables(container, field)
            for at, port in checks.each(container.get("ports"), f"{field}.ports"):
                earlier = ports.setdefault((port["containerPort"], port["protocol"]), _Ports())
                yield from _of_port(port, at, earlier)
                earlier.add(port, f"{root}{at}")
                name = port.get("name", "")
                first = named.setdefault(name, f"{root}{at}")
                if name and first != f"{root}{at}":
                    use = f"services and probes that select ports by name will use {first}"
                    yield f'{at}: duplicate port name "{name}" with {first}, {use}'


def _of_amounts(resources: Json, field: str) -> Iterator[str]:
    for part in ("limits", "requests", "overhead"):
        for name, text in (resources.get(part) or {}).items():
            if name in _WHOLE_BYTES and checks.is_fractional(text):
                yield f'{field}.{part}[{name}]: fractional byte value "{text}" is invalid, must be an integer'


def _of_variables(container: Json, field: str) -> Iterator[str]:
    seen: set[str] = set()
    for number, variable in enumerate(container.get("env") or []):
        name = variable["name"]
        reference, value = f"$({name})", variable.get("value", "")
        if name in seen and ("valueFrom" in variable or value == reference or reference not in value):
            yield f'{field}.env[{number}]: hides previous definition of "{name}", which may be dropped when using apply'
        seen.add(name)


_Host = tuple[str, int]
"""An address of the host, "" for all, and a port of it, 0 for none."""


def _host_of(port: Json) -> _Host:
    return port.get("hostIP", ""), port.get("hostPort", 0)


class _Ports:
    """The ports before, of one number and protocol, in their order."""

    def __init__(self) -> None:
        self._all: list[tuple[_Host, str]] = []
        self._places: dict[int, dict[str, list[int]]] = {}  # by the host's port and address

    def add(self, port: Json, field: str) -> None:
        address, number = host = _host_of(port)
        self._places.setdefault(number, {}).setdefault(address, []).append(len(self._all))
        self._all.append((host, field))

    def in_the_way(self, address: str, number: int) -> list[tuple[_Host, str]]:
        """Those that may be the same port of the host, each with its field."""
        if not number:
            return self._all
        same = self._places.get(number, {})
        alike = (same.get(one, []) for one in {address, ""}) if address else same.values()
        return [
            self._all[place]
            for place in sorted(place for group in (*self._places.get(0, {}).values(), *alike) for place in group)
        ]


def _of_port(port: Json, field: str, earlier: _Ports) -> Iterator[str]:
    address, number = host = _host_of(port)
    for other, other_field in earlier.in_the_way(address, number):
        if host == other:
            yield f"{field}: duplicate port definition with {other_field}"
        elif not number or not other[1]:
            yield f"{field}: overlapping port definition with {other_field}"
        else:
            yield f"{field}: dangerously ambiguous port definition with {other_field}"
    if address and not number:
        inner = f"ContainerPort:{port['containerPort']} Protocol:{port['protocol']} HostIP:{address}"
        yield f"{field}: hostIP set without hostPort: {{Name:{port.get('name', '')} HostPort:0 {inner}}}"
