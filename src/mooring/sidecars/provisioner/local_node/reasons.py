"""Every reason that a node becomes the owner of a claim, or does not, in a user's words."""

from __future__ import annotations

from mooring.control.reasons import reason


@reason("no node is to become its owner: {why}")
class NotFree:
    """why: in the claim's or the class's words."""

    why: str


@reason('node "{node_name}" makes its volume')
class Taken:
    node_name: str


@reason("its class does not allow this node: {why}")
class NotAllowedHere:
    why: str


@reason("{what} is looked up first")
class LookingUp:
    what: str


@reason("the driver is asked whether there is room for its {needed_bytes} bytes here")
class Asking:
    needed_bytes: int


@reason('node "{node_name}" becomes its owner')
class BecomesOwner:
    node_name: str


@reason("there is no room for its {needed_bytes} bytes here: another node may have it")
class NoRoom:
    needed_bytes: int


@reason("somebody else was quicker to write to it: {error}")
class Slower:
    error: str


@reason("the node could not be written to it: {error}")
class NotWritten:
    error: str
