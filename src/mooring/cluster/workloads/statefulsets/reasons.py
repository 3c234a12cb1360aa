"""Every reason of StatefulSets, in a user's words."""

from __future__ import annotations

from mooring.control.reasons import reason


@reason("it is gone: the garbage collector deletes its pods")
class Gone:
    pass


@reason("it is being deleted: the garbage collector deletes its pods")
class Deleting:
    pass


@reason("its template is new: it gets a ControllerRevision")
class NewTemplate:
    pass


@reason("its {replicas} pods are there")
class AllThere:
    replicas: int


@reason('pod "{pod}" is missing')
class Missing:
    pod: str


@reason('pod "{pod}" waits until claim "{claim}" is gone, which is about to go')
class ClaimGoes:
    pod: str
    claim: str


@reason('pod "{pod}" has ended: it is made anew')
class Ended:
    pod: str


@reason('waits until pod "{pod}" is ready')
class WaitsFor:
    pod: str


@reason('waits until pod "{pod}" has ended')
class WaitsForEnd:
    pod: str


@reason('pod "{pod}" is beyond the number wished for')
class TooMany:
    pod: str


@reason('pod "{pod}" is of an old template')
class Outdated:
    pod: str
