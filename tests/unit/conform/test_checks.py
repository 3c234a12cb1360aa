"""conform on the reference driver, and on drivers that break one rule each: it names that rule, and no other."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from mooring.conform import asker
from mooring.conform.book.watcher import BOOK
from mooring.conform.call.patience import SIDECARS
from mooring.conform.report import as_junit, as_tap, as_text, as_values, line
from mooring.conform.runner import End
from mooring.csi.driver import Driver
from mooring.csi.errors import DriverError
from mooring.sidecars.attacher.options import AttacherOptions
from mooring.sidecars.provisioner.options import ProvisionerOptions
from mooring.sidecars.resizer.options import ResizerOptions
from mooring.sidecars.snapshotter.options import SnapshotterOptions
from mooring.wire.grpc.codes import Code
from tests.support.bent_drivers import (
    SECRET,
    AlwaysAborted,
    BadName,
    Bent,
    CreatesSlowly,
    GrowsSometime,
    ListsFewer,
    TakesAnyParameter,
    TellsSecrets,
)
from tests.support.rows import each_row
from tests.unit.conform.runs import conform, numbers

BIN = Path(sys.executable).parent


def shell(line: str) -> str:
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True).stdout


async def test_a_call_that_outlasts_a_sidecar_is_a_warning_with_the_flag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asker, "SIDECARS", {Driver.create_volume: ("csi-provisioner", 0.2)})
    report = await conform(tmp_path, CreatesSlowly, only=("create-twice",))
    (finding,) = report.findings
    assert ("CSI704", "CreateVolume", True) == (finding.breach.rule.number, finding.breach.rpc, report.is_good)
    assert re.fullmatch(
        r"it took 0\.[3-9] s, and csi-provisioner waits 0\.2 s: start it with --timeout=10s", finding.breach.found
    )


def test_the_sidecars_wait_as_their_flags_say() -> None:
    waits = {
        "csi-provisioner": ProvisionerOptions(),
        "csi-attacher": AttacherOptions(),
        "csi-resizer": ResizerOptions(),
        "csi-snapshotter": SnapshotterOptions(),
    }
    assert {name: options.timeout_s for name, options in waits.items()} == dict(SIDECARS.values())


@pytest.mark.slow
async def test_the_reference_driver_keeps_every_rule(tmp_path: Path) -> None:
    report = await conform(tmp_path, volumes=30)
    assert [one.breach.line for one in report.findings] == []
    assert report.is_good
    assert {one.check.name for one in report.results if one.end is End.SKIPPED} == {
        "volume-after-kill",
        "kill-between-calls",
        "kill-in-calls",
        "full-disk",
        "kill-on-full-disk",
        "readonly-disk",
        "data-stays",
        "data-in-restore",
        "data-in-clone",
        "node-id-of-another-node",
        "publish-to-two-nodes",
        "unpublish-from-second-node",
    }


QUICK = 8
"""In every run of the tests, one broken driver in so many; the others are long."""
BENT = [pytest.param(one, id=f"{one.breaks}-{one.__name__}") for one in Bent.all]


@pytest.mark.slow
@each_row("bent", BENT[::QUICK], parts=2)
async def test_a_broken_driver_is_caught_by_its_rule_and_by_no_other(tmp_path: Path, bent: type[Bent]) -> None:
    await it_is_caught_by_its_rule_and_by_no_other(tmp_path, bent)


@pytest.mark.long
@each_row("bent", [one for number, one in enumerate(BENT) if number % QUICK], parts=12)
async def test_so_is_each_other_broken_driver(tmp_path: Path, bent: type[Bent]) -> None:
    await it_is_caught_by_its_rule_and_by_no_other(tmp_path, bent)


async def it_is_caught_by_its_rule_and_by_no_other(tmp_path: Path, bent: type[Bent]) -> None:
    report = await conform(tmp_path, bent)
    assert numbers(report) == {bent.breaks}, "\n".join(f"{one.check}: {one.breach.line}" for one in report.findings)
    stopped = any(one.end is End.STOPPED for one in report.results)
    assert report.is_good is (BOOK[bent.breaks].is_warning and not stopped and not report.left)


async def test_a_call_that_never_goes_through_is_no_mere_warning(tmp_path: Path) -> None:
    report = await conform(tmp_path, AlwaysAborted, only=("modify",))
    assert {"CSI705"} == numbers(report)
    assert End.STOPPED in {one.end for one in report.results}
    assert not report.is_good


async def test_the_call_by_hand_is_the_one_that_broke_the_rule(tmp_path: Path) -> None:
    """As a shell would take it; secrets stand in a file of the reader's own."""
    report = await conform(tmp_path, TellsSecrets, only=("create-from-no-volume",))
    (finding,) = report.findings
    line = finding.by_hand("unix:///csi.sock")
    assert SECRET not in line
    typed = await asyncio.to_thread(
        shell, f"{shlex.quote(str(BIN))}/{line.replace(' --secrets-file FILE', '')} --dry-run"
    )
    assert "conform-no-such-volume" in typed
    assert "CreateVolume --csi-address unix:///csi.sock --secrets-file FILE -f - <<< " in line


async def test_a_later_check_names_the_rules_too(tmp_path: Path) -> None:
    """A check that has found nothing new would be broken without a reason."""
    report = await conform(tmp_path, ListsFewer, only=("list-what-there-is", "list-page-by-page"))
    assert [(line(one), len(one.findings)) for one in report.results] == [
        ("broken  list-what-there-is  CSI605", 1),
        ("broken  list-page-by-page  CSI605", 0),
    ]


async def test_a_rule_that_another_check_met_first_is_told_with_its_own_check(tmp_path: Path) -> None:
    """The introduction hears of the name, too; what only it and other checks have met would be told with none that asks
    about it.
    """
    report = await conform(tmp_path, BadName, only=("plugin-info", "probe"))
    assert [("CSI101", "plugin-info")] == [(one.breach.rule.number, one.check) for one in report.findings]
    cases = {
        one.get("name"): one for one in ElementTree.fromstring(as_junit(report, "").split("\n", 1)[1]).iter("testcase")
    }
    failure = cases["plugin-info"].find("failure")
    assert failure is not None
    assert "CSI101" == failure.get("type")
    assert "Mend: " in (failure.text or "")


async def test_a_rule_that_no_check_has_met_is_a_case_of_its_own_in_junit_and_tap(tmp_path: Path) -> None:
    report = await conform(tmp_path, BadName, only=("probe",))
    assert ["introduction"] == [one.check for one in report.findings]
    suite = ElementTree.fromstring(as_junit(report, "").split("\n", 1)[1])
    assert ("2", "1") == (suite.get("tests"), suite.get("failures"))
    assert [("CSI711", "probe"), ("CSI101", "introduction")] == [
        (one.get("classname"), one.get("name")) for one in suite.iter("testcase")
    ]
    assert ["1..2", "ok 1 - probe", "not ok 2 - introduction"] == as_tap(report, "").splitlines()[1:4]


class SpeaksToTheTerminal(Bent):
    """Each error has a secret, moves the cursor, and is endless."""

    async def create_volume(self, request: Any) -> Any:
        raise DriverError(Code.INTERNAL, f"\x1b[2J\x00\n--password={request.secrets.get('password')} {'x' * 1_000_000}")

    async def get_plugin_info(self, request: Any) -> Any:
        answer = await self.inner.get_plugin_info(request)
        answer.vendor_version = "1\x1b[2J"
        return answer


async def test_a_drivers_words_move_no_cursor_and_tell_no_secret_in_any_form(tmp_path: Path) -> None:
    report = await conform(tmp_path, SpeaksToTheTerminal, only=("create-twice", "create-from-volume"))
    texts = [
        as_text(report, ""),
        as_junit(report, ""),
        as_tap(report, ""),
        json.dumps(as_values(report, ""), ensure_ascii=False),
    ]
    texts += [line(one) for one in report.results]
    assert {"CSI702"} == numbers(report)
    for text in texts:
        assert text.replace("\n", "").isprintable()
        assert SECRET not in text
        assert len(text) < 30_000
    ElementTree.fromstring(as_junit(report, "").split("\n", 1)[1])


class EndsWhatWasGivenUp(Bent):
    """Goes on with a CreateVolume whose caller went away, for a second, and answers Aborted meanwhile, as CSI
    allows.
    """

    async def create_volume(self, request: Any) -> Any:
        if (working := self.seen.get(request.name)) is not None and not working.done():
            raise DriverError(Code.ABORTED, "an operation for this volume is under way")
        working = self.seen[request.name] = asyncio.ensure_future(self._create(request))
        return await asyncio.shield(working)

    async def _create(self, request: Any) -> Any:
        await asyncio.sleep(1.0)
        return await self.inner.create_volume(request)


@pytest.mark.slow
async def test_a_driver_may_be_a_while_at_what_its_caller_has_given_up(tmp_path: Path) -> None:
    """As slow as the machine is busy: three Aborted within a quarter of a second prove nothing."""
    report = await conform(tmp_path, EndsWhatWasGivenUp, only=("caller-goes-away",))
    assert [] == [one.breach.line for one in report.findings]


async def test_unknown_parameters_are_tried_without_known_ones(tmp_path: Path) -> None:
    """As csi-sanity does. The parameters that conform is not told are left out alone."""
    only = ("create-with-unknown-mutable", "modify-with-unknown", "modify-unknown", "modify")
    report = await conform(tmp_path, TakesAnyParameter, mutable=False, only=only)
    assert {one.check.name: one.end for one in report.results} == {
        "create-with-unknown-mutable": End.KEPT,
        "modify-with-unknown": End.BROKEN,
        "modify-unknown": End.KEPT,
        "modify": End.SKIPPED,
    }


async def test_a_volume_grows_of_which_nobody_says_when_it_can(tmp_path: Path) -> None:
    """EXPAND_VOLUME alone promises the call, and the resizer of a cluster asks for no more; csi-driver-host-path is
    such a driver.
    """
    report = await conform(tmp_path, GrowsSometime, only=("expand", "expand-while-published"))
    assert [(one.check.name, one.end) for one in report.results] == [
        ("expand", End.KEPT),
        ("expand-while-published", End.SKIPPED),
    ]
