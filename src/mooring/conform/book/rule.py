"""A rule of the book, and a breach of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Final

import msgspec
from google.protobuf.message import Message

SPECIFICATION: Final = "https://github.com/container-storage-interface/spec/blob/v1.12.0/spec.md"


class Rule(msgspec.Struct, frozen=True):
    """One demand on a driver.

    number: `CSI201`. title: the breach in a few words. asks: the sentence of CSI on which it rests, in our words, with
    its MUST or SHOULD (RECOMMENDED, or nothing but good sense). place: that sentence's section, as the anchor of its
    heading. kubernetes: what a cluster does after a breach. mend: the author's next step. drivers: real drivers that
    break a MUST, and work beside the Go sidecars.
    """

    number: str
    title: str
    asks: str
    place: str
    kubernetes: str
    mend: str
    drivers: str = ""

    @property
    def is_warning(self) -> bool:
        """True for a breach with which a driver may well work: it is shown, and fails nothing."""
        return bool(self.drivers) or "SHOULD" in self.asks

    @property
    def source(self) -> str:
        """Where the demand is written down."""
        return f"{SPECIFICATION}#{self.place}"


@dataclasses.dataclass(frozen=True, slots=True)
class Breach:
    """A driver broke a rule. rpc: the call that showed it. subject: what the call was about. where: the node, "" for
    the controller.

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
        """`CSI516 NodeUnstageVolume of volume 'a' on n1: …`; a warning says that it is one."""
        return f"{self.rule.number} {'(warning) ' if self.rule.is_warning else ''}{self.what}"

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
    """`The driver broke 2 rules of CSI:`, and how many warnings there are beside."""
    return f"The driver {verdict({breach.rule for breach in breaches})}:"


def verdict(rules: Collection[Rule]) -> str:
    """`broke no rule of CSI`, `broke 2 rules of CSI, with 1 warning`. rules: each once."""
    warnings = sum(rule.is_warning for rule in rules)
    broken = len(rules) - warnings
    told = f"broke {broken or 'no'} {'rule' if broken < 2 else 'rules'} of CSI"
    return f"{told}, with {warnings} {'warning' if warnings == 1 else 'warnings'}" if warnings else told
