"""core/v1 Node."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from mooring.api import names
from mooring.api.quantity import parse_quantity
from mooring.apiserver import field_errors
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.metadata import META_MESSAGES
from mooring.apiserver.resource import Json, OtherObjects, Resource, Status
from mooring.apiserver.rules import addresses, checks
from mooring.apiserver.rules.checks import TAINT_EFFECTS

MESSAGES: Final = META_MESSAGES.extended("""
Node: 1 metadata ObjectMeta!, 2 spec NodeSpec!, 3 status NodeStatus!
NodeSpec: 1 podCIDR s, 7 podCIDRs *s@, 3 providerID s, 4 unschedulable b, 5 taints *Taint, 6 configSource NodeConfigSource?, 2 externalID s
Taint: 1 key s!, 2 value s, 3 effect s!, 4 timeAdded time?
NodeConfigSource: 2 configMap ConfigMapNodeConfigSource?
ConfigMapNodeConfigSource: 1 namespace s!, 2 name s!, 3 uid s, 4 resourceVersion s, 5 kubeletConfigKey s!
NodeStatus: 1 capacity {q}, 2 allocatable {q}?, 3 phase s, 4 conditions *NodeCondition@type, 5 addresses *NodeAddress@type, 6 daemonEndpoints NodeDaemonEndpoints!, 7 nodeInfo NodeSystemInfo!, 8 images *ContainerImage, 9 volumesInUse *s, 10 volumesAttached *AttachedVolume, 11 config NodeConfigStatus?, 12 runtimeHandlers *NodeRuntimeHandler, 13 features NodeFeatures?, 14 declaredFeatures *s
NodeCondition: 1 type s!, 2 status s!, 3 lastHeartbeatTime time!, 4 lastTransitionTime time!, 5 reason s, 6 message s
NodeAddress: 1 type s!, 2 address s!
NodeDaemonEndpoints: 1 kubeletEndpoint DaemonEndpoint!
DaemonEndpoint: 1 Port i32!
NodeSystemInfo: 1 machineID s!, 2 systemUUID s!, 3 bootID s!, 4 kernelVersion s!, 5 osImage s!, 6 containerRuntimeVersion s!, 7 kubeletVersion s!, 8 kubeProxyVersion s!, 9 operatingSystem s!, 10 architecture s!, 11 swap NodeSwapStatus?
NodeSwapStatus: 1 capacity i64?
ContainerImage: 1 names *s!-, 2 sizeBytes i64
AttachedVolume: 1 name s!, 2 devicePath s!
NodeConfigStatus: 1 assigned NodeConfigSource?, 2 active NodeConfigSource?, 3 lastKnownGood NodeConfigSource?, 4 error s
NodeRuntimeHandler: 1 name s!-, 2 features NodeRuntimeHandlerFeatures?
NodeRuntimeHandlerFeatures: 1 recursiveReadOnlyMounts b?, 2 userNamespaces b?
NodeFeatures: 1 supplementalGroupsPolicy b?
""")  # noqa: E501

_NOT_READY: Final = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
_EXTERNAL_ID_WARNING: Final = "spec.externalID: this field is deprecated, and is unused by Kubernetes"
_FEATURE: Final = re.compile(r"[A-Z][A-Za-z0-9]*(/[A-Za-z][A-Za-z0-9]*)*")
_FEATURE_MAX: Final = 253
_FEATURE_RULE: Final = (
    "must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or "
    "MyFeature/mySubFeature), "
    "and contain only alphanumeric characters and slashes"
)
_SET_ONCE: Final = ("podCIDRs", "providerID")


class _OnlyShown(dict[str, str]):
    """The capacity where a client says that nothing of it is allocatable: all of it is shown, but it is not the
    client's to be checked.
    """


def _default(new: Json) -> None:
    status = new["status"]
    checks.default_amounts(status.get("capacity"))
    checks.default_amounts(status.get("allocatable"))
    if not status.get("allocatable"):
        copied = dict if status.pop("allocatable", None) is None else _OnlyShown
        status |= {"allocatable": copied(status["capacity"])} if "capacity" in status else {}
    spec = new["spec"]
    if spec.get("podCIDR") and spec.get("podCIDRs", [""])[0] != spec["podCIDR"]:
        spec["podCIDRs"] = [spec["podCIDR"]]
    elif spec.get("podCIDRs"):
        spec["podCIDR"] = spec["podCIDRs"][0]
    spec.pop("configSource", None)  # (nobody reads it any more)
    status.pop("config", None)


def _admit(new: Json, _view: OtherObjects) -> None:
    """A new node is tainted until somebody finds it ready."""
    taints = new["spec"].setdefault("taints", [])
    if not any((taint["key"], taint["effect"]) == (_NOT_READY["key"], _NOT_READY["effect"]) for taint in taints):
        taints.append(dict(_NOT_READY))


def _validate(new: Json) -> Iterator[FieldCause]:
    seen: set[tuple[str, str]] = set()
    for number, taint in enumerate(new["spec"].get("taints") or []):
        field = f"metadata.taints[{number}]"  # (so the real one says)
        yield from field_errors.named(taint["key"], f"{field}.key", names.qualified_name)
        yield from checks.named_once(taint.get("value", ""), f"{field}.value", names.label_value)
        effect = taint["effect"]
        yield from (
            checks.one_of(effect, f"{field}.effect", TAINT_EFFECTS)
            if effect
            else [field_errors.required(f"{field}.effect")]
        )
        if (taint["key"], taint["effect"]) in seen:
            yield field_errors.duplicate(field, taint, "taints must be unique by key and effect pair")
        seen.add((taint["key"], taint["effect"]))
    yield from _validate_cidrs(new["spec"].get("podCIDRs") or [])
    swap = ((new["status"].get("nodeInfo") or {}).get("swap") or {}).get("capacity", 1)
    if swap <= 0:
        yield field_errors.invalid(
            "metadata.nodeSwapStatus.capacity", swap, "must be greater than zero"
        )  # (so the real one says)
    yield from _validate_amounts_and_features(new)


def _validate_cidrs(texts: list[str]) -> list[FieldCause]:
    """Each a network, at most one of each IP version."""
    found = [
        cause for at, text in checks.each(texts, "spec.podCIDRs") for cause in addresses.validate_network(text, at)
    ]
    networks = [addresses.network_of(text) for text in texts]
    if (
        len(networks) > 1
        and None not in networks
        and len({network.version for network in networks if network}) < len(networks)
    ):
        found.append(
            field_errors.invalid("spec.podCIDRs", texts, "may specify no more than one CIDR for each IP family")
        )
    return found


def _validate_status(new: Json, _old: Json) -> Iterator[FieldCause]:
    yield from _validate_amounts_and_features(new)
    yield from _validate_addresses(new)


def _validate_amounts_and_features(new: Json) -> Iterator[FieldCause]:
    yield from (
        field_errors.invalid(f"status.{part}.{name}", amount, "must be greater than or equal to 0")
        for part in ("capacity", "allocatable")
        for name, amount in (new["status"].get(part) or {}).items()
        if parse_quantity(amount).value < 0 and not isinstance(new["status"][part], _OnlyShown)
    )
    yield from _validate_features(new["status"].get("declaredFeatures") or [])


def _validate_addresses(new: Json) -> Iterator[FieldCause]:
    """Each once; a create does not ask for that."""
    seen: set[tuple[str, str]] = set()
    for number, address in enumerate(new["status"].get("addresses") or []):
        both = address["type"], address["address"]
        if both in seen:
            yield field_errors.duplicate(f"status.addresses[{number}]", {"Type": both[0], "Address": both[1]})
        seen.add(both)


def _validate_features(features: list[str]) -> Iterator[FieldCause]:
    """In order, each once, named like AFeature/ItsPart."""
    for number, feature in enumerate(features):
        field = f"status.declaredFeatures[{number}]"
        if number and feature < features[number - 1]:
            yield field_errors.invalid(field, feature, "list must be sorted alphabetically")
        if number and feature == features[number - 1]:
            yield field_errors.duplicate(field, feature)
        if len(feature.encode()) > _FEATURE_MAX:
            yield field_errors.invalid(
                field, feature, f'invalid feature name "{feature}": must be no more than {_FEATURE_MAX} characters'
            )
        elif not _FEATURE.fullmatch(feature):
            yield field_errors.invalid(field, feature, f'invalid feature name "{feature}": {_FEATURE_RULE}')


def _validate_update(new: Json, old: Json) -> Iterator[FieldCause]:
    yield from (
        field_errors.forbidden(
            f"spec.{part}", f'node updates may not change {part.rstrip("s")} except from "" to valid'
        )
        for part in _SET_ONCE
        if old["spec"].get(part) and new["spec"].get(part) != old["spec"][part]
    )
    if new["spec"].get("externalID") != old["spec"].get("externalID"):
        yield field_errors.forbidden("spec.externalID", "may not be updated")
    yield from _validate_addresses(new)


NODES: Final = Resource(
    group="",
    kind="Node",
    plural="nodes",
    namespaced=False,
    short_names=("no",),
    beginnings=("",),
    message=MESSAGES["Node"],
    status=Status.WITH_METADATA,
    delete_answers_object=False,
    default=_default,
    admit=_admit,
    validate=_validate,
    validate_update=_validate_update,
    validate_status=_validate_status,
    warnings=lambda node, _old: [_EXTERNAL_ID_WARNING] if node["spec"].get("externalID") else [],
    field_names=frozenset({"spec.unschedulable"}),
    fields=lambda node: {"spec.unschedulable": str(node["spec"].get("unschedulable", False)).lower()},
)
