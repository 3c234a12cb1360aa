"""The answer: what is wrong, what follows from it, and the line to change."""

from __future__ import annotations

import enum

import msgspec


class Severity(enum.Enum):
    """Its value is its rank. Errors and warnings are findings for the exit code; a note asks for nothing."""

    ERROR = 0
    """Something does not work, or will not."""
    WARNING = 1
    """It works, but slowly, not always, or not for everybody."""
    NOTE = 2
    """Nobody can say from what was read, or it is as somebody may have wanted it."""


class Change(msgspec.Struct, frozen=True):
    """line: a command, or a line of YAML. where: where the YAML goes, `FILE:LINE` or the command that opens it; "" for
    a command.
    """

    line: str
    where: str = ""


class Finding(msgspec.Struct, frozen=True):
    """check: the name of the check. about: the object, `Deployment storage/csi`. wrong, follows: a sentence each."""

    check: str
    severity: Severity
    about: str
    wrong: str
    follows: str
    change: Change


def in_order(findings: list[Finding]) -> list[Finding]:
    """The worst first, and each object's together. Nothing stands there twice."""
    return sorted(dict.fromkeys(findings), key=lambda one: (one.severity.value, one.about, one.check, one.wrong))
