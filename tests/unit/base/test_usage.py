"""What --help prints."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from mooring.base.flagkinds import BOOL, DURATION, GATES, STRING, GateStage
from mooring.base.flags import Section, flag, flags_of, gate
from mooring.cli.process import WIDTH, usage


@dataclasses.dataclass(frozen=True, kw_only=True)
class Table:
    timeout_s: float = flag(
        "timeout", DURATION, 15.0, "deadline of a call, which is long enough to need more than a line of it"
    )
    address: str = flag(
        "csi-address", STRING, "/run/csi/the socket", "the driver's socket, whose default stays in one piece"
    )
    election: bool = flag("leader-election", BOOL, False, "elect a leader", Section.ELECTION)
    long: str = flag("a-name-that-leaves-no-room", STRING, "", "below it")
    old: bool = flag("add-dir-header", BOOL, False, "nothing", Section.COMPATIBLE)
    older: bool = flag("a-buffer", BOOL, False, "nothing", Section.COMPATIBLE)
    gates: Mapping[str, bool] = flag("gates", GATES, {}, "")
    a: bool = gate("A", GateStage.GA, True)


def test_the_whole_of_it() -> None:
    assert usage(
        Table, "csi-x", "Does this and that, and is so well described that the sentence is wrapped.", "csi-x \\\n  --y"
    ) == (
        """\
Does this and that, and is so well described that the sentence is wrapped.

For example:
  csi-x \\
    --y

Usage of csi-x:
  --a-name-that-leaves-no-room string
                          below it
  --csi-address string    the driver's socket, whose default stays in one piece
                          (default "/run/csi/the socket")
  --gates gates           Feature gates, as Name=true|false pairs. Options are:
                          A=true|false (GA - default=true)
                          AllAlpha=true|false (ALPHA - default=false)
                          AllBeta=true|false (BETA - default=false)
  --timeout duration      deadline of a call, which is long enough to need more
                          than a line of it (default 15s)

Leader election:
  --leader-election       elect a leader

Accepted for compatibility, without effect:
  --a-buffer, --add-dir-header
"""
    )


def test_rows_are_in_alphabetical_order_and_fit_a_terminal() -> None:
    assert list(flags_of(Table)) == sorted(flags_of(Table))
    assert all(len(line) < WIDTH for line in usage(Table, "x", "about " * 40).splitlines())
