"""A layer that can't be tested is told at the end of the run, or fails it."""

from __future__ import annotations

import pytest

from tests.support.layers import REAL_PEERS, REAL_SERVER, SPECIFICATION, not_tested, summary


def test_a_missing_layer_skips(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MOORING_REQUIRE_REAL", raising=False)
    with pytest.raises(pytest.skip.Exception, match="NOT TESTED: real API server: no etcd"):
        not_tested(REAL_SERVER, "no etcd")


def test_a_missing_layer_fails_where_all_are_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOORING_REQUIRE_REAL", "1")
    with pytest.raises(pytest.fail.Exception, match="NOT TESTED: real API server: no etcd"):
        not_tested(REAL_SERVER, "no etcd")


def test_what_no_clone_can_bring_is_never_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOORING_REQUIRE_REAL", "1")
    with pytest.raises(pytest.skip.Exception, match="NOT TESTED: specification"):
        not_tested(SPECIFICATION, "no original")


def test_a_layer_without_a_remedy_is_refused() -> None:
    with pytest.raises(AssertionError, match="add it to REMEDIES"):
        not_tested("the moon", "too far")


def test_the_summary_counts_tests_per_layer_and_leaves_out_other_skips() -> None:
    reasons = [
        f"Skipped: NOT TESTED: {REAL_SERVER}: no etcd",
        f"Skipped: NOT TESTED: {REAL_PEERS}: no csi-attacher",
        f"Skipped: NOT TESTED: {REAL_SERVER}: no etcd\nthe log of a program",
        "Skipped: only on a Tuesday",
    ]
    lines = summary(reasons)
    assert ["NOT TESTED: Go peers (1 test)", "NOT TESTED: real API server (2 tests)"] == [
        one for one in lines if one.startswith("NOT")
    ]
    assert 1 == lines.count("    no etcd")
    assert not any("log" in line for line in lines)
    assert not any("Tuesday" in line for line in lines)


def test_nothing_is_said_when_all_was_tested() -> None:
    assert [] == summary(["Skipped: only on a Tuesday"])
