"""`mooring orphans`: volumes that have lost their object, and objects that have lost their volume.

| exit code | when |
|---|---|
| 0 | nothing has leaked, no volume is abandoned, and no object is without its volume; or all of these are deleted |
| 3 | something is left |
| 2 | a command line that is wrong |
| 1 | it could not look, or somebody said no |
"""

from __future__ import annotations

import asyncio
import dataclasses
import re
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, TextIO

from mooring.base.errors import ConfigError, MooringError
from mooring.base.flagkinds import BOOL, DURATION, STRING, word_of
from mooring.base.flags import Parsed, flag
from mooring.base.text import visible
from mooring.base.units import format_duration
from mooring.cli.people import answer_of, run_for_people, typed
from mooring.cli.process import Command, Machine
from mooring.cli.tables import AddressFlags, AsKubectlFlags, ProcessFlags

if TYPE_CHECKING:
    from mooring.base.clock import Clock
    from mooring.csi.driver import Driver
    from mooring.inspect.inventory import Scanner
    from mooring.inspect.orphans import Finding, OrphansReport
    from mooring.kube.cluster import Cluster

CLEAN, CANNOT, LEFT = 0, 1, 3
CONNECT_S_MAX: Final = 5.0
WAYS_OUT_MAX: Final = 5

_EXIT_CODES: Final = """
Exit codes: 0 nothing is wrong, or all that was wrong is deleted; 3 something
is left; 2 the command line is wrong; 1 it could not look, or the question was
answered with no.
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class OrphansFlags(AsKubectlFlags, ProcessFlags, AddressFlags):
    timeout_s: float = flag("timeout", DURATION, 60.0, "Timeout of each call to the driver.")
    output: str = flag("o", word_of("table", "json"), "table", "table or json.")
    prefix: str = flag(
        "prefix",
        STRING,
        "",
        "Volumes without this prefix of the name are foreign; needed if others share the storage. Every "
        "cluster has the usual one, pvc-.",
    )
    delete: bool = flag(
        "delete", BOOL, False, "Delete leaked volumes, once you have typed the driver's name, and after a second look."
    )
    yes: bool = flag(
        "yes",
        BOOL,
        False,
        "With --delete: do not ask. Only with --volume, or with a --prefix that is this cluster's alone.",
    )
    older_than_s: float = flag(
        "older-than",
        DURATION,
        600.0,
        "With --delete: only volumes still leaked after this time. The command waits, since drivers report no ages.",
    )
    volume: str = flag(
        "volume", STRING, "", "With --delete: only these volumes, by their handles, with commas between."
    )
    tidy: bool = flag(
        "tidy", BOOL, False, "Remove intents that another provisioner has fulfilled from Mooring's journal."
    )
    secret: str = flag("secret", STRING, "", "With --delete: the secret that DeleteVolume needs, as namespace/name.")


def _check(parsed: Parsed[OrphansFlags]) -> None:
    flags = parsed.flags
    if flags.output not in ("table", "json"):
        raise ConfigError(f"-o: must be table or json, got {flags.output!r}", exit_code=2)
    if flags.timeout_s <= 0:
        raise ConfigError(f"--timeout: must be greater than zero, got {format_duration(flags.timeout_s)}", exit_code=2)
    if flags.older_than_s < 0:
        raise ConfigError(f"--older-than: must not be negative, got {format_duration(flags.older_than_s)}", exit_code=2)
    if not flags.delete and (flags.yes or flags.volume or flags.secret):
        raise ConfigError("--yes, --volume and --secret go with --delete", exit_code=2)
    if flags.yes and not (flags.prefix or flags.volume):
        raise ConfigError(
            "--yes: needs --volume, or a --prefix of this cluster's own: without a question, say which volumes go",
            exit_code=2,
        )
    if flags.yes and not flags.volume and _is_everybodys(flags.prefix):
        raise ConfigError(
            f"--yes: --prefix={flags.prefix} fits every cluster's volumes: name them with --volume, or leave out --yes",
            exit_code=2,
        )
    if flags.secret and len([part for part in flags.secret.split("/") if part]) != 2:
        raise ConfigError(f"--secret: must be namespace/name, got {flags.secret!r}", exit_code=2)


def _is_everybodys(prefix: str) -> bool:
    """True for what a provisioner's usual names, pvc- and a uid, may begin with in any cluster."""
    return "pvc-".startswith(prefix) or re.fullmatch("pvc-[0-9a-f-]*", prefix) is not None


COMMAND: Final[Command[OrphansFlags]] = Command(
    OrphansFlags,
    check=_check,
    epilog=_EXIT_CODES,
    about="Compares a driver's volumes with a cluster's objects, and finds volumes without a PersistentVolume, and "
    "the reverse. "
    "Changes nothing without --delete.",
    example="mooring orphans --csi-address=/run/csi/socket --kubeconfig=$HOME/.kube/config",
)


def run(argv: Sequence[str], prog: str, machine: Machine | None = None) -> int:
    """argv: the words after `mooring orphans`. Gives the exit code."""
    return run_for_people(
        COMMAND, argv, prog, lambda flags: answer_of(_on_the_network(flags, machine or Machine()), prog, CANNOT)
    )


async def _on_the_network(flags: OrphansFlags, machine: Machine) -> int:
    from mooring.base.clock import LoopClock
    from mooring.cli.clusters import client_for_people
    from mooring.csi.wire_driver import WireDriver

    clock = LoopClock()
    users = client_for_people("mooring-orphans", flags.kubeconfig, machine, clock=clock)
    driver = WireDriver(flags.csi_address, clock=clock)
    await driver.connect(CONNECT_S_MAX)
    try:
        async with users as cluster:
            return await OrphansCommand(flags, cluster, driver, clock, sys.stdin, sys.stdout, sys.stderr).run()
    finally:
        await driver.close()


class OrphansCommand:
    """The command on two ports."""

    def __init__(
        self,
        flags: OrphansFlags,
        cluster: Cluster,
        driver: Driver,
        clock: Clock,
        stdin: TextIO,
        stdout: TextIO,
        stderr: TextIO,
    ) -> None:
        self._flags, self._cluster, self._driver, self._clock = flags, cluster, driver, clock
        self._stdin, self._stdout, self._stderr = stdin, stdout, stderr
        self._driver_name, self._lists = "", False
        self._place: Mapping[str, str] = {}
        self._named = frozenset(handle.strip() for handle in flags.volume.split(",") if handle.strip())

    async def run(self) -> int:
        """Gives the exit code. Raises MooringError."""
        await self._probe_and_identify()
        if not self._lists:
            return await self._look_at_snapshots()
        report = await self._look()
        if self._flags.tidy:
            report = await self._tidied(report)
        removed: dict[str, str] = {}
        if self._flags.delete:
            chosen = self._chosen(report)
            if not chosen:
                self._say_why_nothing(report)
            elif not self._is_confirmed(chosen):
                self._say("nothing is deleted")
                self._show(report, removed)
                return CANNOT
            try:
                await self._remove(chosen, removed)
            except (MooringError, asyncio.CancelledError):
                self._show(report, removed)
                raise
        self._show(report, removed)
        gone = {handle for handle, problem in removed.items() if not problem}
        return LEFT if any(finding.handle not in gone for finding in report.wrong()) else CLEAN

    async def _probe_and_identify(self) -> None:
        from mooring.csi.probe_and_identify import probe_and_identify
        from mooring.csi.proto import csi_pb2 as csi

        info = await probe_and_identify(self._driver, clock=self._clock)
        self._driver_name = info.name
        self._lists = csi.ControllerServiceCapability.RPC.LIST_VOLUMES in info.controller
        if csi.PluginCapability.Service.VOLUME_ACCESSIBILITY_CONSTRAINTS in info.plugin:
            self._place = await self._learn_place()

    async def _learn_place(self) -> Mapping[str, str]:
        """Where the driver is, {} when it has no node service or does not know."""
        from mooring.csi.errors import DriverError
        from mooring.sidecars.provisioner.environment import learn_place

        try:
            return await learn_place(self._driver, self._flags.timeout_s)
        except DriverError:
            return {}

    async def _look(self) -> OrphansReport:
        from mooring.inspect.orphans import judged

        return judged(await self._scanner().scan(), self._flags.prefix)

    def _scanner(self) -> Scanner:
        from mooring.inspect.inventory import Scanner

        return Scanner(self._cluster, self._driver, self._clock, self._driver_name, self._place, self._flags.timeout_s)

    async def _look_at_snapshots(self) -> int:
        """All that can be said of a driver that lists no volumes. Raises ConfigError where that is nothing."""
        from mooring.inspect.orphans import judged

        report = judged(await self._scanner().scan_snapshots())
        text = (
            f"the driver {self._driver_name} does not list its volumes (LIST_VOLUMES): nobody can say what has leaked"
        )
        if self._flags.delete or not report.wrong():
            raise ConfigError(text)
        self._say(f"{text}; snapshots that may be there:")
        self._show(report, {})
        return LEFT

    async def _tidied(self, report: OrphansReport) -> OrphansReport:
        """The report of another look, where anything was taken out of the journal. Raises MooringError."""
        from mooring.inspect.settled import tidied

        uids = {intent.uid for intent in report.settled}
        pages = (
            [one async for one in tidied(self._cluster, self._driver_name, uids, self._clock.wall_s())] if uids else []
        )
        for page, problem in pages:
            self._say(f"{page}: {problem or 'what another provisioner has made is taken out'}")
        return await self._look() if pages else report

    # -- deleting

    def _chosen(self, report: OrphansReport) -> tuple[Finding, ...]:
        """Raises ConfigError for a volume that must stay, and where the cluster may be the wrong one."""
        deletable = report.deletable(self._named)
        kept = sorted(self._named - {finding.handle for finding in deletable})
        if kept:
            raise ConfigError(
                "; ".join(f"--volume: {handle} is not deleted: {report.why_kept(handle)}" for handle in kept)
            )
        if deletable and not report.object_count and (self._flags.yes or not self._named):
            without = ", without --yes" if self._flags.yes else ""
            remedy = (
                "leave out --yes, and answer the question"
                if self._named
                else f"name the volumes with --volume{without}"
            )
            raise ConfigError(
                f"the cluster has no PersistentVolume of the driver {self._driver_name}: is it the right one? "
                f"If it is, {remedy}"
            )
        return deletable

    def _say_why_nothing(self, report: OrphansReport) -> None:
        kept = report.deletable_at_all()
        if not kept:
            self._say("nothing is deleted: no volume has leaked")
            return
        self._say("nothing is deleted: the report says what keeps each volume")
        ways_out = report.ways_out()
        for way_out in ways_out[:WAYS_OUT_MAX]:
            self._say(f"  first: {way_out}")
        if len(ways_out) > WAYS_OUT_MAX:
            self._say(f"  and {len(ways_out) - WAYS_OUT_MAX} more")

    def _is_confirmed(self, chosen: Sequence[Finding]) -> bool:
        from mooring.inspect.render import counted, size

        if self._flags.yes:
            return True
        for finding in chosen:
            self._say(f"  {finding.handle}  {size(finding.size)}")
        it = "it" if len(chosen) == 1 else "them"
        what = f"{counted(len(chosen), 'volume')} of {self._driver_name} with all that is in {it}"
        self._say(f"{what}; no other cluster on this storage was asked.")
        self._stderr.write(f"Type the driver's name to delete {it}: {visible(self._driver_name)}\n> ")
        self._stderr.flush()
        return typed(self._stdin) == self._driver_name

    async def _remove(self, chosen: Sequence[Finding], removed: dict[str, str]) -> None:
        """removed: is told of each volume what kept it from being deleted, "" for nothing. Raises MooringError."""
        from mooring.inspect.delete_volume import Removal

        if not chosen:
            return
        secrets = await self._secret()
        if self._flags.older_than_s:
            self._say(f"looking again in {format_duration(self._flags.older_than_s)}, before anything is deleted")
            await self._clock.sleep(self._flags.older_than_s)
        removal = Removal(self._driver, self._clock, self._look, self._named, secrets, self._flags.timeout_s)
        async for finding, problem in removal.run(chosen):
            removed[finding.handle] = problem
            self._say(f"{finding.handle}: {problem or 'deleted'}")

    async def _secret(self) -> dict[str, str]:
        from mooring.api.core import SecretReference
        from mooring.control.secrets import SecretCache

        if not self._flags.secret:
            return {}
        namespace, _, name = self._flags.secret.partition("/")
        return dict(await SecretCache(self._cluster, self._clock).get(SecretReference(name=name, namespace=namespace)))

    # -- telling

    def _show(self, report: OrphansReport, removed: Mapping[str, str]) -> None:
        from mooring.inspect.render import as_json, as_table

        shown = as_json if self._flags.output == "json" else as_table
        self._stdout.write(shown(report, removed, self._clock.wall_s()))

    def _say(self, text: str) -> None:
        self._stderr.write(f"{visible(text)}\n")
