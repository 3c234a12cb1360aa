"""Pods that their namespace's Pod Security Standard refuses. Pure. It judges only what both `baseline` and `restricted`
forbid.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mooring.inspect.doctor.finding import Change, Finding, Severity
from mooring.inspect.doctor.inventory import Inventory
from mooring.inspect.doctor.objects import BARE_NAMESPACES
from mooring.inspect.doctor.sidecars import Pods, pods_in, sidecars_of

ENFORCE: Final = "pod-security.kubernetes.io/enforce"


def admission(inventory: Inventory) -> Iterator[Finding]:
    """Namespaces without the label may have a default of the whole cluster, which no object shows."""
    for pods in pods_in(inventory):
        namespace = inventory.get(BARE_NAMESPACES, pods.item.namespace)
        level = (namespace.obj.metadata.labels or {}).get(ENFORCE, "") if namespace is not None else ""
        forbidden = _forbidden(pods)
        if namespace is None or level not in ("baseline", "restricted") or not forbidden or not any(sidecars_of(pods)):
            continue
        yield Finding(
            "pod-security",
            Severity.ERROR,
            str(pods.item),
            f"it has {', '.join(forbidden)}, and its namespace {namespace.name} enforces the Pod Security "
            f"Standard {level}",
            "none of its pods is made: the driver is missing where they should run",
            Change(f"{ENFORCE}: privileged", namespace.where("metadata", "labels", ENFORCE))
            if namespace.marks is not None
            else Change(f"kubectl label namespace {namespace.name} {ENFORCE}=privileged --overwrite"),
        )


def _forbidden(pods: Pods) -> list[str]:
    spec = pods.spec
    found = [f"the privileged container {one.name}" for one in spec.containers if one.security_context.privileged]
    found += ["hostPath volumes"] if any(one.host_path is not None for one in spec.volumes) else []
    found += ["hostNetwork"] if spec.host_network else []
    return found + (["hostPID"] if spec.host_pid else [])
