"""Drivers that nodes lack, and node ids that two nodes share. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from mooring.api.core import NODES, Node, Taint
from mooring.api.matching import tolerates
from mooring.api.storage import CSI_DRIVERS, CSI_NODES, CSINodeDriver
from mooring.inspect.doctor.finding import Change, Finding, Severity
from mooring.inspect.doctor.inventory import Inventory
from mooring.inspect.doctor.objects import Container, Item
from mooring.inspect.doctor.sidecars import Pods, pods_in, sidecars_of

KUBERNETES_OWN: Final = "node.kubernetes.io/"
"""Begins taints that a DaemonSet tolerates, or that pass."""
CONTROL_PLANES: Final = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
NAMED_MAX: Final = 5
FOLLOWS: Final = "pods with its volumes that are placed there hang in ContainerCreating"

ByNode = Mapping[str, CSINodeDriver]


def on_nodes(inventory: Inventory) -> Iterator[Finding]:
    if inventory.of_files or not inventory.sees(CSI_NODES, CSI_DRIVERS, NODES):
        return
    plugins = [one for one in pods_in(inventory) if _registers(one)]
    registered: dict[str, dict[str, CSINodeDriver]] = {one.name: {} for one in inventory.all(CSI_DRIVERS)}
    for csi_node in inventory.all(CSI_NODES):
        for entry in csi_node.obj.spec.drivers or ():
            registered.setdefault(entry.name, {})[csi_node.name] = entry
    for driver, by_node in sorted(registered.items()):
        plugin = next((one for one in plugins if _names(one, driver)), None)
        yield from _shared_ids(inventory, driver, by_node)
        if plugin is not None and not by_node and inventory.all(NODES):
            yield _nowhere(driver, plugin)
        elif plugin is not None:
            yield from _lacking(inventory, driver, by_node, plugin)


def _registers(pods: Pods) -> bool:
    return pods.item.kind.name == "DaemonSet" and any(
        one.program == "csi-node-driver-registrar" for one in sidecars_of(pods)
    )


def _names(plugin: Pods, driver: str) -> bool:
    """True where the driver's name stands, as a whole word, in a path or an argument of the pod."""
    word = re.compile(rf"(?<![\w.-]){re.escape(driver)}(?![\w.-])")
    paths = [one.host_path.path for one in plugin.spec.volumes if one.host_path is not None]
    return any(
        word.search(text) for text in (*paths, *(text for one in plugin.spec.containers for text in _texts(one)))
    )


def _texts(container: Container) -> Iterator[str]:
    yield from (*container.command, *container.args)
    for variable in container.env:
        yield variable.value


def _nowhere(driver: str, plugin: Pods) -> Finding:
    return Finding(
        "nodes",
        Severity.ERROR,
        f"CSIDriver {driver}",
        f"it is registered on no node, though the {plugin.item} is there to register it",
        "no pod gets a volume of it",
        _look(plugin),
    )


def _look(plugin: Pods) -> Change:
    item = plugin.item
    return Change(f"kubectl -n {item.namespace} logs daemonset/{item.name} --all-containers --prefix --tail=20")


def _lacking(inventory: Inventory, driver: str, by_node: ByNode, plugin: Pods) -> Iterator[Finding]:
    """Nodes without the driver, by the taint that keeps its plugin away. Nodes that the plugin does not choose are
    meant to lack it.
    """
    kept_away: dict[Taint | None, list[str]] = {}
    for node in inventory.all(NODES):
        if node.name not in by_node and _is_chosen(node, plugin):
            kept_away.setdefault(_keeps_away(node, plugin), []).append(node.name)
    for taint, nodes in kept_away.items():
        yield _untolerated(driver, plugin, taint, nodes) if taint is not None else _unregistered(driver, plugin, nodes)


def _is_chosen(node: Item[Node], plugin: Pods) -> bool:
    """True when the plugin's nodeSelector fits the node. Affinities are not judged: with one, no node is reported."""
    labels = node.obj.metadata.labels or {}
    return "nodeAffinity" not in plugin.spec.affinity and plugin.spec.node_selector.items() <= labels.items()


def _keeps_away(node: Item[Node], plugin: Pods) -> Taint | None:
    for taint in node.obj.spec.taints or ():
        effective = taint.effect in ("NoSchedule", "NoExecute") and not taint.key.startswith(KUBERNETES_OWN)
        if effective and not any(tolerates(one, taint) for one in plugin.spec.tolerations):
            return taint
    return None


def _untolerated(driver: str, plugin: Pods, taint: Taint, nodes: list[str]) -> Finding:
    value = f", value: {taint.value}" if taint.value else ", operator: Exists"
    return Finding(
        "nodes",
        Severity.NOTE if taint.key in CONTROL_PLANES else Severity.WARNING,
        str(plugin.item),
        f"it registers {driver}, and does not tolerate the taint {taint.key} of {_named(nodes)}",
        FOLLOWS,
        Change(
            f"- {{key: {taint.key}{value}, effect: {taint.effect}}}", plugin.item.where(*plugin.path, "tolerations")
        ),
    )


def _unregistered(driver: str, plugin: Pods, nodes: list[str]) -> Finding:
    return Finding(
        "nodes",
        Severity.WARNING,
        f"CSIDriver {driver}",
        f"it is registered on other nodes, and not on {_named(nodes)}: the pod of the {plugin.item} does not "
        "run there, "
        "or its registrar failed",
        FOLLOWS,
        Change(f"kubectl -n {plugin.item.namespace} get pods -o wide --field-selector spec.nodeName={min(nodes)}"),
    )


def _named(nodes: list[str]) -> str:
    names = sorted(nodes)
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return f"the node{'s' if len(names) > 1 else ''} {', '.join(names[:NAMED_MAX])}{more}"


def _shared_ids(inventory: Inventory, driver: str, by_node: ByNode) -> Iterator[Finding]:
    """A driver that attaches tells nodes apart by these ids alone."""
    holders: dict[str, list[str]] = {}
    for node, entry in by_node.items():
        holders.setdefault(entry.node_id, []).append(node)
    described = inventory.get(CSI_DRIVERS, driver)
    attaches = described is None or described.obj.spec.attach_required is not False
    for node_id, nodes in holders.items():
        if len(nodes) > 1:
            yield Finding(
                "nodes",
                Severity.ERROR if attaches else Severity.NOTE,
                f"CSIDriver {driver}",
                f'{_named(nodes)} are registered under one id, "{node_id}"',
                "a volume is attached to the wrong machine, or detached from one that uses it",
                Change(f"kubectl get csinodes {' '.join(sorted(nodes))} -o yaml"),
            )
