"""Every reason of ReplicaSets, in a user's words."""

from __future__ import annotations

from mooring.control.reasons import reason


@reason("it is gone: the garbage collector deletes its pods")
class Gone:
    pass


@reason("it is being deleted: the garbage collector deletes its pods")
class Deleting:
    pass


@reason("there are {count} of {wanted} pods")
class TooFew:
    count: int
    wanted: int


@reason("there are {count} pods, and {wanted} are wished for")
class TooMany:
    count: int
    wanted: int


@reason("there are {wanted} pods, as wished for")
class Enough:
    wanted: int
