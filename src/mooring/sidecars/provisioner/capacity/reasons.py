"""Every reason that the publishing of capacity can have, in a user's words."""

from __future__ import annotations

from mooring.control.reasons import reason


@reason("no class of the driver, or no node of it, is meant any more: nothing is published")
class Obsolete:
    """No such class, or no such place, any more."""


@reason("the driver is asked how much room there is")
class Asked:
    pass


@reason("what is published is what the driver says")
class UpToDate:
    pass


@reason("the driver says that there is room for {capacity}")
class News:
    capacity: str
