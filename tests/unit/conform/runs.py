"""Runs of conform against the reference driver, bent or not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mooring.base.clock import LoopClock
from mooring.conform.checks.all import CHECKS
from mooring.conform.options import Options
from mooring.conform.runner import Report
from mooring.conform.session import asking, judge
from mooring.driver.server import serving
from tests.support.bent_drivers import SECRET, Bent, reference


async def conform(folder: Path, bent: type[Bent] | None = None, *, mutable: bool = True, **options: Any) -> Report:
    """Against the reference driver, over links, bent or not. mutable: conform is told a parameter that can be
    modified.
    """
    report, clock = Report(), LoopClock()
    secrets = {"create_volume": {"password": SECRET}}
    given = Options(
        staging=folder / "staging",
        targets=folder / "pods",
        timeout_s=Bent.timeout_s if bent is None else bent.timeout_s,
        volume_mib=1,
        mutable_parameters={"iops": "1"} if mutable else {},
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


def numbers(report: Report) -> set[str]:
    return {finding.breach.rule.number for finding in report.findings}
