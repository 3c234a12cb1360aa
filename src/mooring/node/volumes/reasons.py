"""Why something is done with a volume on a node, or not yet. Texts of the kubelet's, which monitoring greps, stay as
they are.
"""

from __future__ import annotations

from mooring.control.reasons import reason


@reason("all pods that use it have it")
class Settled:
    pass


@reason("no pod on this node uses it any more, and nothing of it is left here")
class Forgotten:
    pass


@reason("a pod uses it: it is reported in use before anything is mounted, so that nobody detaches it")
class ToBeReported:
    pass


@reason("waits until the Node's status lists it as attached")
class NotAttached:
    pass


@reason("no controller attaches volumes to this node: it asks the attacher itself")
class Attaching:
    pass


@reason("no pod on this node uses it: its attachment is given back")
class Detaching:
    pass


@reason("{text}; looked at again soon")
class AwaitsAttacher:
    text: str


@reason("driver name {driver} not found in the list of registered CSI drivers")
class NoDriver:
    driver: str


@reason("no matching NodeSelectorTerms")
class OutOfReach:
    pass


@reason(
    "waiting for unmount of volume {volume}, because it is already mounted to a different pod with a different "
    "SELinux label"
)
class LabelledOtherwise:
    volume: str


@reason(
    "PersistentVolume {name} names the volume {handle}, which is on this node already, by PersistentVolume {holder}; "
    "give each PersistentVolume a volumeHandle of its own"
)
class NamedTwice:
    handle: str
    name: str
    holder: str


@reason(
    "error processing PVC {claim}: it was made anew, and names volume '{handle}' (PersistentVolume {name}) "
    "now; the pod keeps volume "
    "'{former}' (PersistentVolume {former_name}) until it is deleted: delete it, so that its successor gets the new one"
)
class ClaimMadeAnew:
    claim: str
    handle: str
    name: str
    former: str
    former_name: str


@reason(
    "the pod keeps volume '{handle}' (PersistentVolume {name}) until it is deleted, and none of its claims "
    "names that any more"
)
class NoClaimNames:
    handle: str
    name: str


@reason("volume uses the ReadWriteOncePod access mode and is already in use by another pod")
class TakenByAnotherPod:
    pass


@reason("the driver stages it for this node")
class Staging:
    pass


@reason("as many volumes of driver {driver} are being mounted as this agent was told to mount at once")
class ManyMounts:
    driver: str


@reason("the driver publishes it for pod {pod}")
class Publishing:
    pod: str


@reason("pod {pod} is gone: the driver takes it back")
class Unpublishing:
    pod: str


@reason("no pod on this node uses it: the driver takes it off the node")
class Unstaging:
    pass


@reason("failed, and is tried again: {text}")
class Failing:
    text: str


@reason("whether its pods still want it is not known yet")
class PodsUnknown:
    pass


@reason(
    "a record on this node can't be read, and may be this volume's: put it right, or remove it and what is "
    "mounted beside it"
)
class Unread:
    pass


@reason("the pod is gone, and nothing of its volumes is left here")
class PodGone:
    pass


@reason("a volume's folder, which was left behind, is a volume's again")
class FolderUsed:
    pass


@reason("the raw device's record can be read, or nothing of it is left")
class DeviceRead:
    pass


@reason("a volume's folder, which was left behind, is gone")
class FolderGone:
    pass


@reason("the pod has ended: its volumes are being taken away")
class PodLeaves:
    pass


@reason("the pod's volumes are taken away; it is removed once the Node says which volumes are still in use here")
class PodUnreported:
    pass


@reason("the pod has finished, and nothing of its volumes is left here")
class PodFinished:
    pass


@reason("the pod has all its volumes")
class PodRuns:
    pass


@reason("the Node says which volumes are in use")
class InUseReported:
    pass


@reason("other volumes are in use than the Node says: it is told")
class ReportsInUse:
    pass


@reason("what was in use before the start is not known yet")
class NotReported:
    pass


@reason("the pod waits for volumes")
class PodWaits:
    pass


@reason("its claim has grown: the driver expands it to {size} on this node")
class Growing:
    size: str


@reason("its claim has grown to {size}: no pod here may write, so that the driver can't expand it")
class OnlyRead:
    size: str
