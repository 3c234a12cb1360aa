"""Errors of a driver, and their meaning to a container orchestrator."""

from __future__ import annotations

from typing import Final

from mooring.wire.grpc.codes import Code
from mooring.wire.grpc.errors import RpcError

CANCELED_TEXT: Final = "context canceled"

NON_FINAL: Final = frozenset(
    {Code.CANCELED, Code.DEADLINE_EXCEEDED, Code.UNAVAILABLE, Code.RESOURCE_EXHAUSTED, Code.ABORTED}
)
"""The codes after which the operation may still be going on in the backend; external-attacher 4.12 holds the same ones
for not final.
"""


class DriverError(RpcError):
    """A CSI call that did not succeed.

    answered: the driver said OK, with an answer that can't be read: the request may have been carried out. unsent:
    there was nobody to send the request to.
    """

    def __init__(self, code: int, message: str, *, answered: bool = False, unsent: bool = False) -> None:
        super().__init__(code, message)
        self.answered = answered
        self.unsent = unsent

    @property
    def final(self) -> bool:
        """True when the operation is for sure not in progress."""
        return self.code not in NON_FINAL
