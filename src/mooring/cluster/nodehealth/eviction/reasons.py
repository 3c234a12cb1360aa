"""Every reason of the evictions, in a user's words."""

from __future__ import annotations

from mooring.control.reasons import reason


@reason('"{name}" does not exist: nothing to do')
class Gone:
    name: str


@reason("it is being deleted already")
class Leaves:
    pass


@reason("its node has no NoExecute taint")
class NoTaint:
    pass


@reason("it tolerates the taints of its node for ever")
class Tolerates:
    pass


@reason("it does not tolerate {taint}")
class NotTolerated:
    """taint: key and effect."""

    taint: str


@reason("it tolerates the taints of its node for {seconds} s, and {left_s:g} s are left")
class ToleratesFor:
    seconds: int
    left_s: float


@reason("it has tolerated the taints of its node for {seconds} s, as long as it may")
class TimeIsUp:
    seconds: int
