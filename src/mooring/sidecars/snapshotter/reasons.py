"""Every reason of the snapshotter, in a user's words. A group snapshot's are those of a snapshot."""

from __future__ import annotations

from mooring.control.reasons import reason


@reason('"{name}" does not exist, or is of another driver')
class Gone:
    name: str


@reason('its class "{class_name}" is of another driver: not this driver\'s business')
class Foreign:
    class_name: str


@reason("its source is not one volume or one snapshot")
class BadSource:
    pass


@reason('a snapshot of volume "{volume_handle}" is made under the name "{name}"')
class Creating:
    volume_handle: str
    name: str


@reason(
    'the driver may have made snapshot "{name}" before the content was deleted: it is asked again, so that '
    "nothing is left behind"
)
class FindingOut:
    name: str


@reason('snapshot "{handle}" is made, and not ready yet: the driver is asked for it by {way}')
class Polling:
    handle: str
    way: str


@reason('snapshot "{handle}" was there before: the driver is asked for it by {way}')
class Checking:
    handle: str
    way: str


@reason("ready to use")
class Ready:
    pass


@reason("ready to use: the mark of its creation is removed")
class Settled:
    pass


@reason("it belongs to a group snapshot, which is made as a whole")
class Member:
    pass


@reason("the driver can't be asked: {problem}")
class CantAsk:
    problem: str


@reason('snapshot "{handle}" is deleted in the driver')
class Deleting:
    handle: str


@reason('snapshot "{handle}" is deleted in the driver, and its content goes')
class Deleted:
    handle: str


@reason('content "{content}" stands for a snapshot of the group, too')
class Kept:
    content: str


@reason("its finalizer is removed without a call: {cause}")
class Releasing:
    cause: str


@reason("only the finalizers of others hold it")
class Released:
    pass
