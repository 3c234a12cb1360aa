"""Which volumes a Node's status should list as attached, and the patch that says so. Pure.

Entries of other plugins stay as they are, and so does one of iSCSI or Fibre Channel that nobody names; differs from
upstream, which drops them. An entry of a CSI volume that has no attachment goes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from mooring.api.core import AttachedVolume, Node
from mooring.api.volume_names import PLUGIN
from mooring.cluster.attachdetach.facts import Volume
from mooring.cluster.attachdetach.node_attached import Entry
from mooring.cluster.attachdetach.release import Rules, is_to_be_reported
from mooring.kube.cluster import Patch
from mooring.kube.patch import merge_patch

Report = tuple[AttachedVolume, ...]


def report_of(
    node: Node,
    volumes: Iterable[Volume],
    entries: Collection[Entry],
    rules: Rules,
    stale: Collection[str] | None = None,
) -> Report:
    """The whole list, sorted. volumes, entries: each on this node. stale: the names whose entries are made anew, from
    these; the others stay. None for all that are not of other plugins.
    """
    listed: Mapping[str, AttachedVolume] = {one.name: one for one in node.status.volumes_attached or ()}
    anew = {entry.name for entry in entries} if stale is None else stale
    kept = {key: one for key, one in listed.items() if key not in anew and not (stale is None and _is_of_csi(key))}
    ours = (
        *(volume.unique for volume in volumes if is_to_be_reported(volume, rules)),
        *(entry.name for entry in entries if entry.is_to_be_listed),
    )
    wanted = {**kept, **{name: listed.get(name, AttachedVolume(name)) for name in ours}}
    return tuple(wanted[key] for key in sorted(wanted))


def _is_of_csi(key: str) -> bool:
    return key.startswith(f"{PLUGIN}/")


def is_current(node: Node, report: Report) -> bool:
    """True when the status lists exactly these, in whatever order."""
    return sorted(report, key=_by_name) == sorted(node.status.volumes_attached or (), key=_by_name)


def _by_name(one: AttachedVolume) -> str:
    return one.name


def report_patch(node: Node, report: Report) -> Patch:
    """The whole list, since it is replaced as a whole; refused where another Node has taken the name."""
    listed = [{"name": one.name, "devicePath": one.device_path} for one in report]
    return merge_patch({"status": {"volumesAttached": listed or None}}, of=node)
