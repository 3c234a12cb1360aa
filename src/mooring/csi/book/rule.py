"""A rule of the book, and a breach of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Final

from google.protobuf.message import Message

SPECIFICATION: Final = "https://github.com/container-storage-interface/spec/blob/v1.12.0/spec.md"


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """One demand on a driver.

    number: `CSI201`. title: the breach in a few words. asks: the demand, in our words. place: the section of CSI's specification that
    makes it, as the anchor of its heading; "" for a demand of Kubernetes alone. kubernetes: what a cluster does after a breach. mend: the
    author's next step.
    """

    number: str
    title: str
    asks: str
    place: str
    kubernetes: str
    mend: str

    @property
    def source(self) -> str:
        """Where the demand is written down."""
        return f"{SPECIFICATION}#{self.place}" if self.place else "Kubernetes"


@dataclasses.dataclass(frozen=True, slots=True)
class Breach:
    """A driver broke a rule. rpc: the call that showed it. subject: what the call was about. where: the node, "" for the controller.

    found: what the driver did, in one line without secrets. request: of that call.
    """

    rule: Rule
    rpc: str
    subject: str
    found: str
    where: str = ""
    request: Message | None = dataclasses.field(default=None, compare=False, repr=False)

    @property
    def line(self) -> str:
        """`CSI515 NodeUnpublishVolume of volume 'a' on n1: …`."""
        return f"{self.rule.number} {self.what}"

    @property
    def what(self) -> str:
        """`NodeUnpublishVolume of volume 'a' on n1: …`."""
        about = f" of {self.subject}" if self.subject else ""
        where = f" on {self.where}" if self.where else ""
        return f"{self.rpc}{about}{where}: {self.found}"

    @property
    def advice(self) -> tuple[str, str]:
        """What follows from it, and the author's next step: a line each."""
        return f"Kubernetes: {self.rule.kubernetes}", f"Mend: {self.rule.mend}"


def headline(breaches: Collection[Breach]) -> str:
    """`The driver broke 2 rules of CSI:`."""
    count = len({breach.rule.number for breach in breaches})
    return f"The driver broke {count} {'rule' if count == 1 else 'rules'} of CSI:"
