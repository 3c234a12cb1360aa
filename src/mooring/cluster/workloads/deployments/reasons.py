"""Every reason of Deployments, in a user's words."""

from __future__ import annotations

from mooring.control.reasons import reason


@reason("it is gone: the garbage collector deletes its ReplicaSets")
class Gone:
    pass


@reason("it is being deleted: the garbage collector deletes its ReplicaSets")
class Deleting:
    pass


@reason("it is paused: only a change of its size counts")
class Paused:
    pass


@reason("{replicas} replicas are wished for by now: its ReplicaSets get their shares")
class Scaled:
    replicas: int


@reason("its template is new: it gets a ReplicaSet")
class NewTemplate:
    pass


@reason("the new ReplicaSet gets {replicas} replicas")
class Grows:
    replicas: int


@reason("old pods are to spare: their ReplicaSets shrink")
class Replaces:
    pass


@reason("its strategy is Recreate: the old pods end first")
class StopsOld:
    pass


@reason("its strategy is Recreate: waits until the old pods have ended")
class WaitsForOld:
    pass


@reason("waits for pods: {available} of {wanted} new ones are available")
class WaitsForPods:
    available: int
    wanted: int


@reason("all {replicas} pods are of the newest template, and available")
class Complete:
    replicas: int
