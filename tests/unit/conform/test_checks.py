"""conform on the reference driver, and on drivers that break one rule each: it names that rule, and no other."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mooring.base.clock import LoopClock
from mooring.conform.checks.all import CHECKS
from mooring.conform.options import Options
from mooring.conform.runner import End, Report
from mooring.conform.session import asking, judge
from mooring.driver.server import serving
from tests.support.bent_drivers import SECRET, Bent, TellsSecrets, reference

BIN = Path(sys.executable).parent


async def conform(folder: Path, bent: type[Bent] | None = None, **options: Any) -> Report:
    """Against the reference driver, over links, bent or not."""
    report, clock = Report(), LoopClock()
    secrets = {"create_volume": {"password": SECRET}}
    given = Options(
        staging=folder / "staging",
        targets=folder / "pods",
        timeout_s=Bent.timeout_s if bent is None else bent.timeout_s,
        volume_mib=1,
        mutable_parameters={"iops": "1"},
        secrets=secrets,
        **options,
    )
    with reference(folder / "state") as inner:
        driver: Any = bent(inner) if bent is not None else inner
        async with (
            serving(driver, str(folder / "csi.sock"), grace_s=0) as socket,
            asking(socket, given, clock, sees=False, program=None) as asker,
        ):
            await judge(asker, CHECKS, clock, report, lambda _: None)
    return report


def shell(line: str) -> str:
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True).stdout


def numbers(report: Report) -> set[str]:
    return {finding.breach.rule.number for finding in report.findings}


@pytest.mark.slow
async def test_the_reference_driver_keeps_every_rule(tmp_path: Path) -> None:
    report = await conform(tmp_path, volumes=30)
    assert [one.breach.line for one in report.findings] == []
    assert report.is_good
    assert {one.check.name for one in report.results if one.end is End.SKIPPED} == {
        "volume-after-kill",
        "kill-between-calls",
        "kill-in-calls",
    }


@pytest.mark.slow
@pytest.mark.parametrize("bent", Bent.all, ids=[f"{one.breaks}-{one.__name__}" for one in Bent.all])
async def test_a_broken_driver_is_caught_by_its_rule_and_by_no_other(tmp_path: Path, bent: type[Bent]) -> None:
    report = await conform(tmp_path, bent)
    assert numbers(report) == {bent.breaks}, "\n".join(f"{one.check}: {one.breach.line}" for one in report.findings)
    assert not report.is_good


async def test_the_call_by_hand_is_the_one_that_broke_the_rule(tmp_path: Path) -> None:
    """As a shell would take it; secrets stand in a file of the reader's own."""
    report = await conform(tmp_path, TellsSecrets, only=("create-from-no-volume",))
    (finding,) = report.findings
    line = finding.by_hand("unix:///csi.sock")
    assert SECRET not in line
    typed = await asyncio.to_thread(shell, f"{BIN}/{line.replace(' --secrets-file FILE', '')} --dry-run")
    assert "conform-no-such-volume" in typed
    assert "CreateVolume --csi-address unix:///csi.sock --secrets-file FILE -f - <<< " in line
