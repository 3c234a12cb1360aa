"""Runs checks against a driver, deletes what they have made, and says how each of them ended."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence

import msgspec

from mooring.base.clock import Clock
from mooring.conform import abilities as able
from mooring.conform.abilities import Abilities
from mooring.conform.asker import Asker
from mooring.conform.book.requests import INCOMPLETE
from mooring.conform.book.watcher import BOOK
from mooring.conform.check import Check, NotApplicable, Stopped
from mooring.conform.cleaning import clean, cleaned
from mooring.conform.finder import CLEANING, INTRODUCTION, told
from mooring.conform.finding import Finding
from mooring.conform.life import CREATES, NODE, begin
from mooring.csi.driver import Driver
from mooring.csi.proto import csi_pb2 as csi


class End(enum.Enum):
    KEPT = "kept"
    BROKEN = "broken"
    WARNED = "warned"
    """What it saw broken are warnings alone."""
    SKIPPED = "skipped"
    STOPPED = "stopped"
    """It could not go on: a call failed for which another check has found the rule already."""


class Result(msgspec.Struct, frozen=True):
    """how a check ended. note: why, for one that was skipped or stopped. findings: those that are told with it, known
    after the last check.

    rules: the numbers of all that it saw broken.
    """

    check: Check
    end: End
    seconds: float
    note: str = ""
    findings: tuple[Finding, ...] = ()
    rules: tuple[str, ...] = ()


class Report(msgspec.Struct):
    """driver: its name and version. left: what could not be deleted. is_whole: False after Ctrl-C. unmade: checks left
    out by then.
    """

    driver: str = ""
    results: list[Result] = msgspec.field(default_factory=list)
    findings: list[Finding] = msgspec.field(default_factory=list)
    left: list[str] = msgspec.field(default_factory=list)
    is_whole: bool = False
    unmade: int = 0
    obstacle: str = ""
    """Why no check could be made."""

    @property
    def is_good(self) -> bool:
        return (
            self.is_whole
            and all(one.breach.rule.is_warning for one in self.findings)
            and not self.left
            and not any(one.end is End.STOPPED for one in self.results)
        )

    def shown_by(self, check: str) -> tuple[Finding, ...]:
        return tuple(one for one in self.findings if one.check == check)

    def count(self, end: End) -> int:
        return sum(one.end is end for one in self.results)


async def run(
    asker: Asker, checks: Sequence[Check], clock: Clock, report: Report, on_result: Callable[[Result], None]
) -> None:
    """Fills the report. What was made is deleted in any case, also when the run is cancelled."""
    planned = ordered(checks, asker)
    report.unmade = len(planned)
    try:
        asker.check = INTRODUCTION
        report.driver, asker.abilities = await introduced(asker)
        if any(CREATES in check.needs or check.rule is INCOMPLETE for check in planned):
            with asker.silently(when=bool(asker.options.only)):
                await tried(asker, to_pod=any(NODE in check.needs for check in planned))
        for check in planned:
            result = await _one(asker, check, clock)
            report.unmade -= 1
            report.results.append(result)
            on_result(result)
        report.is_whole = True
    finally:
        report.left += await cleaned(asker)
        report.findings = [
            msgspec.structs.replace(one, others=len(asker.met[one.key] - {one.check, INTRODUCTION, CLEANING}))
            for one in asker.findings
        ]
        report.results = [
            msgspec.structs.replace(one, findings=report.shown_by(one.check.name)) for one in report.results
        ]


def ordered(checks: Sequence[Check], asker: Asker) -> list[Check]:
    """As they are written for seed 0; another seed has an order of its own. Those that may cost a driver its volumes
    come last.
    """
    found: list[object] = [one for one in checks if not asker.options.only or one.name in asker.options.only]
    if asker.options.seed:
        asker.randomness.shuffle(found)
    return sorted((one for one in found if isinstance(one, Check)), key=lambda one: one.last)


async def introduced(asker: Asker) -> tuple[str, Abilities]:
    """The driver's name, and what it can do. Raises Stopped."""
    info = await asker.must(Driver.get_plugin_info, csi.GetPluginInfoRequest())
    plugin = await asker.must(Driver.get_plugin_capabilities, csi.GetPluginCapabilitiesRequest())
    words, node_id, volumes_max, topology = able.of_plugin(plugin), "", 0, None
    controller = await asker.patiently(Driver.controller_get_capabilities, csi.ControllerGetCapabilitiesRequest())
    if "Plugin.CONTROLLER_SERVICE" in words and controller.ok:
        words |= able.of_service("Controller", controller.response, csi.ControllerServiceCapability.RPC)
    group = await asker.patiently(Driver.group_controller_get_capabilities, csi.GroupControllerGetCapabilitiesRequest())
    if "Plugin.GROUP_CONTROLLER_SERVICE" in words and group.ok:
        words |= able.of_service("Group", group.response, csi.GroupControllerServiceCapability.RPC)
    node = await asker.patiently(Driver.node_get_capabilities, csi.NodeGetCapabilitiesRequest())
    if node.ok:
        words |= {"Node"} | able.of_service("Node", node.response, csi.NodeServiceCapability.RPC)
        answer = await asker.must(Driver.node_get_info, csi.NodeGetInfoRequest())
        node_id, volumes_max = answer.node_id, answer.max_volumes_per_node
        topology = answer.accessible_topology if answer.HasField("accessible_topology") else None
    return told(f"{info.name} {info.vendor_version}".strip()), Abilities(
        frozenset(words), node_id, volumes_max, topology
    )


async def tried(asker: Asker, *, to_pod: bool) -> None:
    """Makes a volume. to_pod: and takes it to a pod and back.

    The answers of a call that fails in any case say nothing about a check's own request.
    """
    try:
        if to_pod and NODE in asker.abilities:
            life = await begin(asker)
            await life.to_pod()
            await life.from_pod()
        else:
            await asker.create(asker.a_volume())
    except (NotApplicable, Stopped):
        pass
    await clean(asker, whole=False)


async def _one(asker: Asker, check: Check, clock: Clock) -> Result:
    began, seen = clock.now(), asker.count
    asker.check, asker.rule = check.name, check.rule
    end, note = End.KEPT, ""
    if asker.is_down:
        return Result(check, End.STOPPED, 0.0, "the driver does not run any more")
    try:
        await asker.revive()
        if check.restarts and asker.program is None:
            raise NotApplicable(
                "this run has not started the driver, so it can't start it again: give a command or a class"
            )
        asker.needs(*check.needs)
        await check.run(asker)
    except NotApplicable as reason:
        end, note = End.SKIPPED, str(reason)
    except Stopped as reason:
        end, note = End.STOPPED, str(reason)
    rules = tuple(sorted(asker.broken.get(check.name, ())))
    if asker.count > seen and not all(BOOK[number].is_warning for number in rules):
        end, note = End.BROKEN, ""
    elif asker.count > seen and end is not End.STOPPED:  # a call that never goes through is no mere warning
        end, note = End.WARNED, ""
    await clean(asker, whole=False)
    return Result(check, end, clock.now() - began, note, rules=rules)
