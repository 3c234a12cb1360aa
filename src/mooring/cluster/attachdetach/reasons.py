"""The reasons of the attach/detach controller, in a user's words."""

from __future__ import annotations

from mooring.control.reasons import reason


@reason("nobody wants the volume, and it is nowhere attached")
class Nothing:
    pass


@reason('attached to node "{node}"')
class Attached:
    node: str


@reason('node "{node}" is to have the volume')
class Wanted:
    node: str


@reason('waits for the attacher of {driver} to attach the volume to node "{node}"')
class Attaching:
    node: str
    driver: str


@reason('waits for the attacher of {driver}, which failed to attach the volume to node "{node}": {error}')
class AttachFailed:
    node: str
    driver: str
    error: str


@reason('waits for the end of the detach from node "{node}", to attach the volume there again')
class DetachingFirst:
    node: str


@reason('VolumeAttachment "{name}" has the name of this volume on node "{node}", and is about something else')
class Mismatch:
    node: str
    name: str


@reason('a POST of the attachment to node "{node}" was not answered: asks whether it is there')
class CreateUnknown:
    node: str


@reason(
    'attached to node "{node}", where a request to detach it may be under way: writes to the attachment, after which '
    "such a request is refused"
)
class Fencing:
    node: str


@reason('stays on node "{node}", which is not ready: notes when the wait for a forced detach begins')
class WaitBegins:
    node: str


@reason('on node "{node}" the wait for a forced detach is over: takes the note of it away')
class WaitEnds:
    node: str


@reason('can not be attached to node "{node}": {text}')
class Blocked:
    node: str
    text: str


@reason('stays on node "{node}": a pod there names its claim, which can not be followed to a volume now')
class MayBeWanted:
    node: str


@reason('no pod on node "{node}" wants it; node has it mounted, and is ready: waits until it is unmounted')
class Mounted:
    node: str


@reason(
    'no pod on node "{node}" wants it; the node was made anew and may have it mounted: waits a minute for what '
    "its kubelet says"
)
class Unheard:
    node: str


@reason(
    'no pod on node "{node}" wants it; the node has it mounted, and is not ready: the detach is forced in {in_s:.0f} s'
)
class ForcedLater:
    node: str
    in_s: float


@reason(
    'no pod on node "{node}" wants it; the node has it mounted, and is not ready: it waits for the node, or '
    "for the out-of-service taint"
)
class NeverForced:
    node: str


@reason('asks how long the StorageClass "{name}" waits before a detach is forced')
class AsksClass:
    name: str


@reason('no pod on node "{node}" wants it: the node is told first')
class Unreporting:
    node: str


@reason('no pod on node "{node}" wants it: asks whether the node has it mounted')
class Checking:
    node: str


@reason('no pod on node "{node}" wants it, and it is not mounted there')
class Released:
    node: str


@reason('no pod on node "{node}" wants it; the node is out of reach, detached by force: {why}')
class Forced:
    node: str
    why: str


@reason('is being detached from node "{node}"')
class Detaching:
    node: str


@reason('is held on node "{node}" by an attachment that is not this controller\'s')
class Foreign:
    node: str


@reason('the status of node "{node}" tells the volumes that are attached')
class Reported:
    node: str


@reason('the status of node "{node}" was written just now, or could not be: it is looked at again in a moment')
class ReportDue:
    node: str


@reason('the status of node "{node}" is to tell the volumes that are attached: {volumes}')
class Reporting:
    node: str
    volumes: str


@reason("every claim of the pod leads to a volume, or it does not want them on a node")
class Resolved:
    pass


@reason("a volume of the pod can't be attached: {text}")
class LeadsNowhere:
    text: str


@reason('node "{node}" is gone')
class NodeGone:
    node: str
