"""Errors of a driver, and their meaning to a container orchestrator."""

from __future__ import annotations

from typing import Final

from mooring.base.errors import MooringError
from mooring.wire.grpc.codes import Code, go_name

NON_FINAL: Final = frozenset({Code.CANCELED, Code.DEADLINE_EXCEEDED, Code.UNAVAILABLE, Code.RESOURCE_EXHAUSTED, Code.ABORTED})
"""After these the operation may still be going on in the backend; external-attacher 4.12 holds these same codes for not final."""


class DriverError(MooringError):
    """A CSI call that did not succeed. str() is Go's form: `rpc error: code = NotFound desc = no such volume`.

    code: the gRPC code (an int, so that numbers of newer drivers pass). message: the driver's text. answered: the driver said OK, with an
    answer that can't be read: the request may have been carried out. unsent: there was nobody to send the request to.
    """

    def __init__(self, code: int, message: str, *, answered: bool = False, unsent: bool = False) -> None:
        super().__init__(f"rpc error: code = {go_name(code)} desc = {message}")
        self.code = code
        self.message = message
        self.answered = answered
        self.unsent = unsent

    @property
    def final(self) -> bool:
        """True when the operation is for sure not in progress."""
        return self.code not in NON_FINAL
