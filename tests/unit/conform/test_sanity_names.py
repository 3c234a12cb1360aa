"""Each test of csi-sanity is asked by a check, and by one alone."""

from __future__ import annotations

from pathlib import Path

from mooring.conform.checks.all import CHECKS

TESTS = set((Path(__file__).parent / "csi-sanity-5.6.tests").read_text().splitlines())
"""As csi-sanity lists them: -ginkgo.dry-run, with `pending` and those of CSI 1.13 left out."""


def test_each_test_of_csi_sanity_is_asked() -> None:
    ours = [test for check in CHECKS for test in check.sanity]
    assert sorted(TESTS) == sorted(ours)


def test_each_check_has_a_name_of_its_own() -> None:
    names = [check.name for check in CHECKS]
    assert len(names) == len(set(names))
