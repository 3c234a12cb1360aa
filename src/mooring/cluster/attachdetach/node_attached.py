"""iSCSI and Fibre Channel volumes: a node attaches them itself, and its kubelet mounts one only once the Node's status
lists it as attached. So there is an entry in the report, and no attachment. Pure.

    on the node                  listed                               not listed
    a pod wants it               stays                                added; one for a single node not while another
                                                                      node lists it
    no pod does, it is in use    stays until the node unmounts it,    nothing
                                 is tainted out of service, or has
                                 been silent for as long as a
                                 forced detach waits
    neither                      goes                                 nothing

Names and rules are those of kube-controller-manager, but for the beginning of that wait: it counts from when the volume
is not wanted any more, and begins anew when it restarts.
"""

from __future__ import annotations

import msgspec

from mooring.api.core import Node
from mooring.api.nodes import is_out_of_service, is_ready
from mooring.cluster.attachdetach.assemble import node_attached_pods
from mooring.cluster.attachdetach.facts import Wish
from mooring.cluster.attachdetach.identity import is_single_node
from mooring.cluster.attachdetach.options import NEVER, AttachDetachOptions
from mooring.cluster.attachdetach.silence import Moment, unchanged_s
from mooring.cluster.attachdetach.view import BY_UNIQUE, View


class Entry(msgspec.Struct, frozen=True):
    """A node-attached volume on a node that has to do with it."""

    name: str
    is_listed: bool
    is_to_be_listed: bool
    #: Seconds until the node loses it by force, NEVER for no such time.
    forced_in_s: float = NEVER
    #: The pods that want it there.
    wishes: tuple[Wish, ...] = ()
    #: The nodes that it has to leave first.
    holders: frozenset[str] = frozenset()

    @property
    def is_new(self) -> bool:
        return self.is_to_be_listed and not self.is_listed


def entry_of(view: View, name: str, node: Node, options: AttachDetachOptions, moment: Moment) -> Entry:
    pods = node_attached_pods(view, name, node.metadata.name)
    is_listed = any(one.name == name for one in node.status.volumes_attached or ())
    if pods.wishes or pods.doubts:
        holders = frozenset() if is_listed else holders_of(view, name, besides=node.metadata.name)
        is_free = bool(pods.wishes) and not holders
        return Entry(name, is_listed, is_listed or is_free, wishes=tuple(pods.wishes), holders=holders)
    if not is_listed or name not in (node.status.volumes_in_use or ()) or is_out_of_service(node):
        return Entry(name, is_listed, is_to_be_listed=False)
    if is_ready(node) or options.disable_force_detach:
        return Entry(name, is_listed, is_to_be_listed=True)
    left_s = options.force_after_s - unchanged_s(node, view.memory.node(node.metadata.name), moment)
    return Entry(name, is_listed, left_s > 0, left_s if left_s > 0 else NEVER)


def holders_of(view: View, name: str, *, besides: str) -> frozenset[str]:
    """The other nodes that list the volume, or are about to; none for one that many nodes may have."""
    if not any(is_single_node(pv.spec) for pv in view.volumes.by(BY_UNIQUE, name)):
        return frozenset()
    listed = {
        node.metadata.name
        for node in view.nodes.by(BY_UNIQUE, name)
        if any(one.name == name for one in node.status.volumes_attached or ())
    }
    return frozenset(listed | view.memory.listing.get(name, set())) - {besides}
