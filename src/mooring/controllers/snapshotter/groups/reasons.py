"""Every reason of the snapshotter about group snapshots, in a user's words."""

from __future__ import annotations

from mooring.control.reasons import reason


@reason('"{name}" does not exist, or is of another driver')
class Gone:
    name: str


@reason('its class "{class_name}" is of another driver: not this driver\'s business')
class Foreign:
    class_name: str


@reason('a group snapshot of {count} volumes is made under the name "{name}"')
class Creating:
    count: int
    name: str


@reason('group snapshot "{handle}" is asked for')
class Asking:
    handle: str


@reason("ready to use")
class Ready:
    pass


@reason("the driver can't be asked: {problem}")
class CantAsk:
    problem: str


@reason('group snapshot "{handle}" is deleted in the driver')
class Deleting:
    handle: str


@reason('content "{content}" stands for it, or for a snapshot of it, too')
class Kept:
    content: str


@reason("its finalizer is removed without a call")
class Releasing:
    pass


@reason("only the finalizers of others hold it")
class Released:
    pass
