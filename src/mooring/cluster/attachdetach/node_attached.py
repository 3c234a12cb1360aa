"""iSCSI and Fibre Channel volumes: a node attaches them itself, and its kubelet mounts one only once the Node's status
lists it as attached. So there is an entry in the report, and no attachment. Pure.

    on the node                  listed                               not listed
    a pod wants it               stays                                added; one for a single node not while another
                                                                      node lists it
    no pod does, it is in use    stays until the node unmounts it,    nothing
                                 is tainted out of service, or the
                                 time for a forced detach is over
    neither                      goes                                 nothing

Names and rules are those of kube-controller-manager, but for the beginning of that time: it begins when the volume is
unwanted and the node not ready, whichever came last; there it may begin on a node that is ready. A Node that this
process saw deleted counts as one that is not ready, and lists and has in use what it did at its end, until a Node of
its name reports. The flag alone says how long the time is: no annotation of a class counts.
"""

from __future__ import annotations

import msgspec

from mooring.api.nodes import is_out_of_service, is_ready
from mooring.cluster.attachdetach.assemble import is_reported, node_attached_pods
from mooring.cluster.attachdetach.facts import Wish
from mooring.cluster.attachdetach.options import NEVER, AttachDetachOptions
from mooring.cluster.attachdetach.silence import Moment, unchanged_s
from mooring.cluster.attachdetach.view import BY_UNIQUE, View


class Entry(msgspec.Struct, frozen=True):
    """A node-attached volume on a node that has to do with it."""

    name: str
    is_listed: bool
    is_to_be_listed: bool
    #: It is listed and in use, and no pod wants it.
    is_unwanted: bool = False
    #: Seconds until the node loses it by force, NEVER for no such time.
    forced_in_s: float = NEVER
    #: The pods that want it there.
    wishes: tuple[Wish, ...] = ()
    #: The nodes that it has to leave first.
    holders: frozenset[str] = frozenset()

    @property
    def is_new(self) -> bool:
        return self.is_to_be_listed and not self.is_listed


def entry_of(view: View, name: str, at: str, options: AttachDetachOptions, moment: Moment) -> Entry:
    """at: the node."""
    node, record, pods = view.node(at), view.memory.node(at), node_attached_pods(view, name, at)
    is_left = node is None and at in view.memory.left.get(name, ())
    is_listed = is_left or is_reported(name, node)
    if pods.wishes or pods.doubts:
        holders = frozenset() if is_listed else holders_of(view, name, besides=at)
        is_free = bool(pods.wishes) and not holders
        return Entry(name, is_listed, is_listed or is_free, wishes=tuple(pods.wishes), holders=holders)
    is_in_use = is_left or (node is not None and name in (node.status.volumes_in_use or ()))
    if not is_listed or not is_in_use or is_out_of_service(node):
        return Entry(name, is_listed, is_to_be_listed=False)
    if is_ready(node) or options.disable_force_detach:
        return Entry(name, is_listed, is_to_be_listed=True, is_unwanted=True)
    unwanted_s = moment.now - record.unwanted.get(name, moment.now)
    left_s = options.force_after_s - min(unwanted_s, unchanged_s(node, record, moment))
    return Entry(name, is_listed, left_s > 0, True, left_s if left_s > 0 else NEVER)


def holders_of(view: View, name: str, *, besides: str) -> frozenset[str]:
    """The other nodes that list the volume, or are about to, or were deleted with it; none for one that many nodes may
    have.
    """
    if not view.is_node_attached_to_one(name):
        return frozenset()
    listed = {node.metadata.name for node in view.nodes.by(BY_UNIQUE, name) if is_reported(name, node)}
    return frozenset(listed.union(view.memory.listing.get(name, ()), view.memory.left.get(name, ()))) - {besides}
