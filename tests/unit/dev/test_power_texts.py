"""The texts of `mooring dev kill-node` fit a terminal; a command to type stays whole."""

from __future__ import annotations

import types
from typing import Any

from mooring.dev import power


def after_a_kill(*, others: bool) -> str:
    switches: Any = power.Switches.__new__(power.Switches)
    switches._patience = types.SimpleNamespace(grace_s=50.0)
    nodes: Any = types.SimpleNamespace(on=("n2",) if others else ())
    return power.paragraphs(
        *switches._after_a_kill(
            nodes, "n1", "its agent and its driver's pods ended, and their mounts stay where they are"
        )
    )


def test_each_line_fits_and_each_command_is_whole() -> None:
    for others in (True, False):
        lines = after_a_kill(others=others).splitlines()
        assert len(lines) > 2
        assert [] == [line for line in lines if len(line) >= 80 and not line.startswith("kubectl ")]
    assert (
        "kubectl taint nodes n1 node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
        in after_a_kill(others=True).splitlines()
    )


def test_a_word_that_is_too_long_and_a_command_stay_whole() -> None:
    long = "n" * 100
    assert f"kubectl taint nodes {long} x" == power.paragraphs(f"kubectl taint nodes {long} x")
    assert long in power.paragraphs(f"{long} is off").splitlines()
