"""What conform writes about broken rules, and the order of its checks."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, cast
from xml.etree import ElementTree

from mooring.conform.asker import Asker
from mooring.conform.book.rule import Breach
from mooring.conform.book.watcher import BOOK
from mooring.conform.checks.all import CHECKS
from mooring.conform.finding import Finding
from mooring.conform.options import Options
from mooring.conform.report import as_junit, as_tap, as_text, as_values
from mooring.conform.runner import End, Report, Result, ordered
from mooring.csi.proto import csi_pb2 as csi
from tests.support.rows import each_row

RULE = BOOK["CSI121"]
DELETES = {
    "delete-volume-without-volume-id",
    "delete-snapshot-without-snapshot-id",
    "delete-volume-group-snapshot-without-group-snapshot-id",
}

OF_TWO_NODES = {"node-id-of-another-node", "publish-to-two-nodes", "unpublish-from-second-node"}
"""A second process may clear the volumes of the first away."""


def report() -> Report:
    """One rule, broken by two calls."""
    findings = tuple(
        Finding(Breach(RULE, rpc, "", f"{rpc} takes anything", request=request), CHECKS[0].name)
        for rpc, request in (
            ("DeleteVolume", csi.DeleteVolumeRequest()),
            ("CreateVolume", csi.CreateVolumeRequest(name="a")),
        )
    )
    result = Result(CHECKS[0], End.BROKEN, 0.0, "", findings, (RULE.number,))
    return Report("csi.example.com 1", [result], list(findings), [], True)


def test_a_rules_words_come_once_above_all_calls_that_broke_it() -> None:
    text = as_text(report(), "unix:///csi.sock")
    assert [text.count(words) for words in (RULE.mend, RULE.kubernetes[:40], RULE.source)] == [1, 1, 1]
    assert (
        text.index(RULE.mend)
        < text.index("  - CreateVolume: CreateVolume takes anything")
        < text.index("  - DeleteVolume: ")
    )
    assert "By hand: mooring call DeleteVolume --csi-address unix:///csi.sock -f - <<< '{}'" in text
    assert "CSI_ENDPOINT" not in text


def test_a_call_by_hand_names_no_socket_that_is_gone() -> None:
    text = as_text(report(), "")
    assert "By hand: mooring call DeleteVolume -f - <<< '{}'" in text
    assert "--csi-address" not in text
    assert 1 == text.count("export CSI_ENDPOINT=unix:///path/of.sock")


@each_row(
    ("rpc", "request_", "makes"),
    [
        (
            "NodeStageVolume",
            csi.NodeStageVolumeRequest(staging_target_path="/t/my stage"),
            "mkdir -p '/t/my stage' && ",
        ),
        (
            "NodePublishVolume",
            csi.NodePublishVolumeRequest(staging_target_path="/t/s", target_path="/t/p/target"),
            "mkdir -p /t/s /t/p && ",
        ),
        ("NodePublishVolume", csi.NodePublishVolumeRequest(target_path="/t/p/target"), "mkdir -p /t/p && "),
        ("NodePublishVolume", csi.NodePublishVolumeRequest(volume_id="a"), ""),
        ("NodeUnpublishVolume", csi.NodeUnpublishVolumeRequest(target_path="/t/p/target"), ""),
    ],
)
def test_a_call_by_hand_makes_the_folders_that_the_caller_owes(rpc: str, request_: Any, makes: str) -> None:
    """Those of the run are removed at its end, and without them the driver shows another error than the one that was
    found.
    """
    line = Finding(Breach(RULE, rpc, "", "", request=request_), "check").by_hand("")
    assert line.startswith(f"{makes}mooring call {rpc} -f - <<< ")


def test_a_failure_in_junit_says_how_to_mend_it() -> None:
    (failure,) = ElementTree.fromstring(as_junit(report(), "").split("\n", 1)[1]).iter("failure")
    assert failure.text is not None
    assert f"Mend: {RULE.mend}" in failure.text.split("\n")
    assert 2 == failure.text.count("By hand: mooring call ")


def test_a_warning_is_shown_and_fails_nothing() -> None:
    """In each form; another kind of reader would take it for a failure."""
    rule = BOOK["CSI701"]
    finding = Finding(Breach(rule, "CreateVolume", "", "code = Unknown"), CHECKS[0].name)
    outside = Finding(Breach(BOOK["CSI515"], "NodeUnpublishVolume", "", "a folder"), "introduction")
    result = Result(CHECKS[0], End.WARNED, 0.0, "", (finding,), (rule.number,))
    warned = Report("csi.example.com 1", [result], [finding, outside], [], True)
    assert warned.is_good
    text = as_text(warned, "")
    assert text.count("Warning: CSI") == 2
    assert text.endswith("1 warned; it broke no rule of CSI, with 2 warnings\n")
    suite = ElementTree.fromstring(as_junit(warned, "").split("\n", 1)[1])
    assert "0" == suite.get("failures")
    assert [] == [*suite.iter("failure")]
    assert [rule.mend in (one.text or "") for one in suite.iter("system-out")] == [True, False]
    tap = as_tap(warned, "")
    assert "not ok" not in tap
    assert "CSI701 (warning) CreateVolume: code = Unknown" in tap
    assert ["warning", "warning"] == [one["level"] for one in as_values(warned, "")["findings"]]


def cut() -> Report:
    """Interrupted after its first check, which was kept; two more were to come."""
    return Report("csi.example.com 1", [Result(CHECKS[0], End.KEPT, 0.0)], is_whole=False, unmade=2)


def test_an_interrupted_run_looks_like_none_that_went_well() -> None:
    suite = ElementTree.fromstring(as_junit(cut(), "").split("\n", 1)[1])
    assert ("2", "0", "1") == (suite.get("tests"), suite.get("failures"), suite.get("errors"))
    (error,) = suite.iter("error")
    assert "the run did not come to its end: 2 checks were not made" == error.get("message")
    lines = as_tap(cut(), "").splitlines()
    assert ("1..3", "Bail out! the run did not come to its end: 2 checks were not made") == (lines[1], lines[-1])
    assert as_text(cut(), "").endswith(
        "it broke no rule of CSI; the run did not come to its end: 2 checks were not made\n"
    )
    assert not cut().is_good


def test_what_could_not_be_deleted_stands_in_the_verdict_as_in_the_exit_code() -> None:
    left = Report("csi.example.com 1", [], [], ["folder /x: it is not empty"], True)
    assert as_text(left, "").endswith("it broke no rule of CSI; 1 thing could not be deleted\n")
    assert not left.is_good


def test_a_finding_says_how_many_more_checks_have_met_it_and_which_call_comes_twice() -> None:
    request = csi.CreateVolumeRequest(name="a")
    findings = [
        Finding(Breach(BOOK["CSI201"], "CreateVolume", "", "another one", request=request), "create-twice", others=3),
        Finding(
            Breach(RULE, "CreateVolume", "", "it takes all", request=request), "create-volume-without-name", others=1
        ),
    ]
    text = as_text(Report("csi.example.com 1", [], findings, [], True), "")
    assert "    Check: create-twice (and 3 checks more)\n    By hand, twice: mooring call CreateVolume" in text
    assert "    Check: create-volume-without-name (and 1 check more)\n    By hand: mooring call CreateVolume" in text


class Stage:
    """Of an asker what the order needs."""

    def __init__(self, seed: int) -> None:
        self.options = Options(staging=cast(Any, None), targets=cast(Any, None), seed=seed)
        self.randomness = random.Random(seed)


def names(seed: int) -> Sequence[str]:
    return [one.name for one in ordered(CHECKS, cast(Asker, Stage(seed)))]


@each_row("seed", [0, 7])
def test_checks_that_may_cost_a_driver_its_volumes_come_last(seed: int) -> None:
    assert {*DELETES, *OF_TWO_NODES} == set(names(seed)[-len(DELETES) - len(OF_TWO_NODES) :])
    assert len(CHECKS) == len(names(seed))
