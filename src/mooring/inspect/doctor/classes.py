"""Classes that no driver serves, missing secrets that they name, and several default classes. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from mooring.api.coordination import LEASES
from mooring.api.group_snapshot import GROUP_SNAPSHOT_CLASSES
from mooring.api.meta import is_deleting
from mooring.api.snapshot import VOLUME_SNAPSHOT_CLASSES
from mooring.api.storage import CSI_DRIVERS, CSI_NODES, STORAGE_CLASSES, VOLUME_ATTRIBUTES_CLASSES, StorageClass
from mooring.inspect.doctor.finding import Change, Finding, Severity
from mooring.inspect.doctor.inventory import Inventory
from mooring.inspect.doctor.objects import BARE_PODS, BARE_SECRETS, WORKLOADS, Item
from mooring.inspect.doctor.sidecars import pods_in
from mooring.inspect.locks import lock_names

IN_TREE: Final = "kubernetes.io/"
"""Begins the provisioners that CSI drivers took over, or that nobody makes volumes for (no-provisioner)."""
CLASSES: Final = (STORAGE_CLASSES, VOLUME_ATTRIBUTES_CLASSES, VOLUME_SNAPSHOT_CLASSES, GROUP_SNAPSHOT_CLASSES)
DEFAULTS: Final = {
    STORAGE_CLASSES.name: (
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
    ),
    VOLUME_SNAPSHOT_CLASSES.name: ("snapshot.storage.kubernetes.io/is-default-class",),
    GROUP_SNAPSHOT_CLASSES.name: ("groupsnapshot.storage.kubernetes.io/is-default-class",),
}
FOLLOWS: Final = {
    STORAGE_CLASSES.name: "claims of this class stay Pending",
    VOLUME_ATTRIBUTES_CLASSES.name: "claims that take this class are never modified",
    VOLUME_SNAPSHOT_CLASSES.name: "snapshots of this class are never made",
    GROUP_SNAPSHOT_CLASSES.name: "group snapshots of this class are never made",
}
_NAME: Final = re.compile(r"csi\.storage\.k8s\.io/(?P<what>(?:[\w-]+-)?)secret-name|(?P<old>csi\w+Secret)Name")


class SecretName(NamedTuple):
    """The Secret that a class names. key: the class's parameter."""

    namespace: str
    name: str
    key: str


def driver_of(item: Item[Any]) -> str:
    """The driver that a class names."""
    obj = item.obj
    if isinstance(obj, StorageClass):
        return obj.provisioner
    return str(getattr(obj, "driver_name", "") or getattr(obj, "driver", ""))


def secrets_of(item: Item[Any]) -> Iterator[SecretName]:
    """The Secrets that a class names without templates."""
    parameters: dict[str, str] = item.obj.parameters or {}
    for key, name in parameters.items():
        found = _NAME.fullmatch(key)
        if found is None:
            continue
        other = f"{found['old']}Namespace" if found["old"] else key.removesuffix("name") + "namespace"
        namespace = parameters.get(other, "")
        if name and namespace and "$" not in name + namespace:
            yield SecretName(namespace, name, key)


def classes(inventory: Inventory) -> Iterator[Finding]:
    for kind in CLASSES:
        found = inventory.all(kind)
        for item in found:
            yield from _driver(inventory, item)
            yield from _secrets(inventory, item)
        yield from _defaults(found)


def _driver(inventory: Inventory, item: Item[Any]) -> Iterator[Finding]:
    driver = driver_of(item)
    if not driver or driver.startswith(IN_TREE) or not inventory.sees(CSI_DRIVERS, CSI_NODES, *WORKLOADS, BARE_PODS):
        return
    if _is_there(inventory, driver):
        return
    near = [one.name for one in inventory.all(CSI_DRIVERS)]
    field = {"StorageClass": "provisioner", "VolumeAttributesClass": "driverName"}.get(item.kind.name, "driver")
    line = f"{field}: {near[0]}" if len(near) == 1 else f"{field}: DRIVER"
    known = f"; CSIDrivers are {', '.join(sorted(near))}" if near else "; there is no CSIDriver at all"
    yield Finding(
        "classes",
        Severity.NOTE if inventory.of_files and not near else Severity.ERROR,
        str(item),
        f'the driver "{driver}" has no CSIDriver, no node and no sidecar{known}',
        FOLLOWS[item.kind.name],
        _anew(item, line, field),
    )


def _anew(item: Item[Any], line: str, field: str) -> Change:
    """In a cluster the driver of a class can't be changed: the class is made anew."""
    if item.marks is not None:
        return Change(line, item.where(field))
    kind, field = item.kind.name.lower(), re.escape(field)
    return Change(
        f"kubectl get {kind} {item.name} -o yaml | sed 's/^{field}: .*/{line}/' | kubectl replace --force -f -"
    )


def _is_there(inventory: Inventory, driver: str) -> bool:
    """A provisioner that is no CSI driver may have a pod that names it, or a Lease."""
    if inventory.get(CSI_DRIVERS, driver) is not None:
        return True
    if any(one.name == driver for node in inventory.all(CSI_NODES) for one in node.obj.spec.drivers or ()):
        return True
    locks = set(lock_names(driver)) | {driver.replace("/", "-")}
    if any(lease.name in locks for lease in inventory.all(LEASES)):
        return True
    return any(driver in _words(pods.spec.containers) for pods in pods_in(inventory))


def _words(containers: Any) -> str:
    return "\n".join(
        word for one in containers for word in (*one.command, *one.args, *(variable.value for variable in one.env))
    )


def _secrets(inventory: Inventory, item: Item[Any]) -> Iterator[Finding]:
    if not inventory.sees(BARE_SECRETS):
        return
    for namespace, name, key in secrets_of(item):
        secret = inventory.get(BARE_SECRETS, name, namespace)
        if secret is None:
            state = "is not among the files" if inventory.of_files else "does not exist"
            severity = Severity.NOTE if inventory.of_files else Severity.ERROR
        elif is_deleting(secret.obj):
            state, severity = "is being deleted, and goes once its finalizers do", Severity.WARNING
        else:
            continue
        yield Finding(
            "secrets",
            severity,
            str(item),
            f"its parameter {key} names the secret {namespace}/{name}, which {state}",
            f"{FOLLOWS[item.kind.name]}, or their volumes can't be used or deleted",
            Change(f"kubectl -n {namespace} create secret generic {name} --from-literal=KEY=VALUE"),
        )


def _defaults(found: tuple[Item[Any], ...]) -> Iterator[Finding]:
    """Two defaults: of StorageClasses in all, of the others for one driver."""
    by_driver: dict[str, list[Item[Any]]] = {}
    for item in found:
        if _is_default(item):
            by_driver.setdefault("" if item.kind.name == STORAGE_CLASSES.name else driver_of(item), []).append(item)
    for several in by_driver.values():
        if len(several) < 2:
            continue
        names = ", ".join(sorted(one.name for one in several))
        (key, *_), last = DEFAULTS[several[0].kind.name], several[-1]
        is_storage = last.kind.name == STORAGE_CLASSES.name
        yield Finding(
            "defaults",
            Severity.WARNING if is_storage else Severity.ERROR,
            str(last),
            f"there are {len(several)} default classes: {names}",
            "a claim without a class gets the newest of them, whichever that is"
            if is_storage
            else "a snapshot without a class is refused: it can't choose",
            Change(f'{key}: "false"', last.where("metadata", "annotations", key))
            if last.marks is not None
            else Change(f"kubectl annotate {last.kind.name.lower()} {last.name} {key}- --overwrite"),
        )


def _is_default(item: Item[Any]) -> bool:
    notes = item.obj.metadata.annotations or {}
    return any(notes.get(key) == "true" for key in DEFAULTS.get(item.kind.name, ()))
