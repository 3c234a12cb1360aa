"""`mooring unstick`: takes finalizers off an object that is being deleted, or off all that a driver's attacher holds,
once it is proved that nothing needs them.

| exit code | when |
|---|---|
| 0 | no finalizer holds the object any more, or any of the driver's |
| 3 | a finalizer is left |
| 2 | a command line that is wrong |
| 1 | it could not look, it refused to take anything off, or somebody said no |
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Final, TextIO

from mooring.base.errors import ConfigError
from mooring.base.flagkinds import BOOL, DURATION, NAMESPACE, SOCKET, STRING, word_of
from mooring.base.flags import Parsed, flag
from mooring.base.text import visible
from mooring.cli.objects import object_named
from mooring.cli.people import answer_of, check_output, run_for_people, typed, width_of, words_and_flags
from mooring.cli.process import Command, Machine
from mooring.cli.tables import AsKubectlFlags, ProcessFlags

if TYPE_CHECKING:
    from mooring.base.clock import Clock
    from mooring.csi.driver import Driver
    from mooring.inspect.unstick.detaching import Detach
    from mooring.inspect.unstick.driver_word import Witness
    from mooring.inspect.unstick.facts import Facts
    from mooring.inspect.unstick.look import Look
    from mooring.inspect.unstick.table import Verdict
    from mooring.inspect.unstick.take_off import Removal
    from mooring.kube.cluster import Cluster

CLEAN, CANNOT, LEFT = 0, 1, 3
OUTPUTS: Final = ("text", "json", "yaml")
CONNECT_S_MAX: Final = 5.0

_EXIT_CODES: Final = """
Exit codes: 0 no finalizer holds the object any more; 3 a finalizer is left;
2 the command line is wrong; 1 it could not look, it refused to take anything
off, or the question was answered with no.
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class UnstickFlags(AsKubectlFlags, ProcessFlags):
    namespace: str = flag("namespace", NAMESPACE, "", "The object's namespace. Empty: the kubeconfig's.")
    n: str = flag("n", NAMESPACE, "", "The same as --namespace.")
    output: str = flag("output", word_of(*OUTPUTS), "text", "text, json or yaml.")
    o: str = flag("o", word_of(*OUTPUTS), "", "The same as --output.")
    driver: str = flag(
        "driver",
        STRING,
        "",
        "Instead of one object: the attachments and volumes in deletion that this driver's attacher holds.",
    )
    csi_address: str = flag(
        "csi-address",
        SOCKET,
        "",
        "The driver's unix socket, to ask the driver itself, too. Empty: the API server alone.",
    )
    timeout_s: float = flag("timeout", DURATION, 60.0, "Timeout of each call to the driver.")
    detach: bool = flag(
        "detach",
        BOOL,
        False,
        "With --csi-address: let the driver detach the volume of a VolumeAttachment whose attacher is dead.",
    )
    finalizer: str = flag("finalizer", STRING, "", "Only this finalizer.")
    dry_run: bool = flag("dry-run", BOOL, False, "Only show what is proved, and what speaks against it.")
    yes: bool = flag("yes", BOOL, False, "Do not ask, where all is proved.")
    force: bool = flag(
        "force", BOOL, False, "Without proof, once you have typed the object's name. Leaves an Event on the object."
    )
    reason: str = flag("reason", STRING, "", "With --force: why, for the Event.")


def _check(parsed: Parsed[UnstickFlags]) -> None:
    flags = parsed.flags
    check_output(flags.o or flags.output, *OUTPUTS)
    if flags.force and (flags.yes or flags.dry_run):
        raise ConfigError(
            "--force: goes without --yes and --dry-run: type the object's name, or pipe it in", exit_code=2
        )
    if flags.yes and flags.dry_run:
        raise ConfigError("--yes goes without --dry-run", exit_code=2)
    if flags.force and not flags.reason:
        raise ConfigError("--force: needs --reason, which the Event tells those who come after you", exit_code=2)
    if flags.reason and not flags.force:
        raise ConfigError("--reason goes with --force", exit_code=2)
    if flags.detach and not flags.csi_address:
        raise ConfigError("--detach: needs --csi-address, the driver that is to detach the volume", exit_code=2)
    if flags.detach and flags.force:
        raise ConfigError("--detach goes without --force: its success is the proof", exit_code=2)
    if flags.driver and (flags.csi_address or flags.force):
        raise ConfigError("--driver goes without --csi-address and --force: they are for one object", exit_code=2)
    if flags.timeout_s <= 0:
        raise ConfigError("--timeout: must be greater than zero", exit_code=2)


COMMAND: Final[Command[UnstickFlags]] = Command(
    UnstickFlags,
    check=_check,
    epilog=_EXIT_CODES,
    about="Frees an object that is being deleted from its finalizers, where driver and API server prove that nothing "
    "needs them; "
    "refuses otherwise, and says why.",
    example="mooring unstick --dry-run volumeattachment/csi-0123abcd",
)


def run(argv: Sequence[str], prog: str, machine: Machine | None = None) -> int:
    """argv: the words after `mooring unstick`: the object, as `pv/data` or `pv data`, none with --driver, and flags.
    Gives the exit code.
    """
    words, flags = words_and_flags(UnstickFlags, argv)
    return run_for_people(
        COMMAND, flags, prog, lambda given: answer_of(_on_the_network(words, given, machine or Machine()), prog, CANNOT)
    )


async def _on_the_network(words: Sequence[str], flags: UnstickFlags, machine: Machine) -> int:
    from mooring.base.clock import LoopClock
    from mooring.cli.clusters import client_for_people, load_config_as_kubectl

    clock = LoopClock()
    home = load_config_as_kubectl(flags.kubeconfig, machine).namespace
    streams = (sys.stdin, sys.stdout, sys.stderr)
    users = client_for_people("mooring-unstick", flags.kubeconfig, machine, clock=clock)
    async with _driver_at(flags.csi_address, clock) as driver, users as cluster:
        return await UnstickCommand(flags, words, home, cluster, driver, clock, streams).run()


@contextlib.asynccontextmanager
async def _driver_at(address: str, clock: Clock) -> AsyncIterator[Driver | None]:
    """None for no address. Raises DriverError."""
    if not address:
        yield None
        return
    from mooring.csi.wire_driver import WireDriver

    driver = WireDriver(address, clock=clock)
    await driver.connect(CONNECT_S_MAX)
    try:
        yield driver
    finally:
        await driver.close()


@dataclasses.dataclass
class Held:
    """An object with the verdicts on its finalizers by the last look. outcomes: for those that were to go, what kept
    them on, "" for nothing.
    """

    look: Look
    facts: Facts
    found: Sequence[Verdict]
    outcomes: dict[str, str]

    def rest(self) -> list[str]:
        return [one.finalizer for one in self.found if self.outcomes.get(one.finalizer, "not asked for")]


class UnstickCommand:
    """The command on its ports. words: the object. home: the namespace where none is named. streams: stdin, stdout,
    stderr.
    """

    def __init__(
        self,
        flags: UnstickFlags,
        words: Sequence[str],
        home: str,
        cluster: Cluster,
        driver: Driver | None,
        clock: Clock,
        streams: tuple[TextIO, TextIO, TextIO],
    ) -> None:
        from mooring.inspect.served import as_served
        from mooring.inspect.unstick.look import KINDS

        self._flags, self._cluster, self._driver, self._clock = flags, as_served(cluster), driver, clock
        self._stdin, self._stdout, self._stderr = streams
        if flags.driver and words:
            raise ConfigError("--driver goes without an object", exit_code=2)
        home = flags.namespace or flags.n or home
        self._named = None if flags.driver else object_named(words, home, "mooring unstick", KINDS)
        self._witness: Witness | None = None

    async def run(self) -> int:
        """Gives the exit code. Raises MooringError."""
        from mooring.inspect.unstick.table import verdicts

        held: list[Held] = []
        for look in await self._looks():
            facts = await look.first()
            held.append(Held(look, facts, verdicts(facts), {}))
        self._check_finalizer(held)
        if self._flags.dry_run or not any(one.found for one in held):
            self._show(held)
            return LEFT if any(one.found for one in held) else CLEAN
        detach = self._detach_of(held[0].facts) if self._flags.detach else None
        chosen = [self._chosen(detach.then if detach is not None else one.found) for one in held]
        if not any(chosen):
            self._show(held)
            self._say("nothing is taken off: the report says what speaks against it")
            return CANNOT
        self._show_for_question(held)
        if detach is not None:
            self._say(
                f"the driver is called to detach volume {detach.handle} from node {detach.node} (node id "
                f"{detach.node_id})"
            )
        if not self._is_confirmed(held, chosen):
            self._show(held)
            self._say(f"nothing is taken off without the {'driver' if self._flags.driver else 'object'}'s name")
            return CANNOT
        if detach is not None:
            await self._let_detach(held[0].look, detach)
        try:
            for one, going in zip(held, chosen, strict=True):
                if self._flags.driver or detach is not None:
                    now = await one.look.again()
                    one.found = verdicts(now) if now is not None else ()
                # A volume is free once its attachments are.
                names = [verdict.finalizer for verdict in (self._chosen(one.found) if self._flags.driver else going)]
                one.outcomes = await self._removal(one.look).run(names)
        finally:
            self._show(held)
        return LEFT if any(one.rest() for one in held) else CLEAN

    async def _looks(self) -> list[Look]:
        from mooring.inspect.locks import CONTROLLER_LOCKS, PROTECTION_LOCKS
        from mooring.inspect.unstick.driver_word import Witness
        from mooring.inspect.unstick.look import Look
        from mooring.inspect.unstick.nearby import DriverSearch

        driver, timeout_s = self._driver, self._flags.timeout_s
        self._witness = None if driver is None else await Witness.met(driver, self._clock, timeout_s)
        if self._named is not None:
            return [Look(self._cluster, self._clock, *self._named, self._witness, self._say)]
        also = (*PROTECTION_LOCKS, *CONTROLLER_LOCKS.values())
        search = DriverSearch(self._cluster, self._clock, self._flags.driver, self._say, also, asks_driver=False)
        return [
            Look(self._cluster, self._clock, kind, key, None, self._say, search) for kind, key in await search.stuck()
        ]

    def _chosen(self, found: Sequence[Verdict]) -> list[Verdict]:
        return [
            one for one in found if (self._flags.force or one.may_go) and self._flags.finalizer in ("", one.finalizer)
        ]

    def _detach_of(self, facts: Facts) -> Detach | None:
        """The call that frees the object; None where none is needed, or none can be made."""
        from mooring.inspect.unstick.detaching import detach_of

        assert self._witness is not None, "_check has seen to --csi-address"
        found = detach_of(facts, self._witness)
        if isinstance(found, str):
            if found:
                self._say(f"--detach: {found}")
            return None
        return found

    async def _let_detach(self, look: Look, detach: Detach) -> None:
        """Raises MooringError."""
        from mooring.inspect.unstick.detaching import detached

        assert self._witness is not None
        look.told = await detached(detach, self._cluster, self._witness)

    def _removal(self, look: Look) -> Removal:
        from mooring.inspect.unstick.take_off import Removal

        return Removal(self._cluster, self._clock, look, self._flags.reason if self._flags.force else "")

    def _check_finalizer(self, held: Sequence[Held]) -> None:
        names = sorted({one.finalizer for each in held for one in each.found})
        if self._flags.finalizer and names and self._flags.finalizer not in names:
            raise ConfigError(
                f"--finalizer: {self._flags.finalizer} does not hold the object; {', '.join(names)} do", exit_code=2
            )

    def _is_confirmed(self, held: Sequence[Held], chosen: Sequence[Sequence[Verdict]]) -> bool:
        if self._flags.yes:
            return True
        for each, going in zip(held, chosen, strict=True):
            for one in going:
                which = f"{each.look}: {one.finalizer}" if self._flags.driver else one.finalizer
                self._say(f"  {which}" + ("" if one.may_go else f": NOT PROVED, it protects {one.protects}"))
        if self._flags.driver:
            self._say("  and off each volume that only these attachments hold")
        name, what = (self._flags.driver, "driver") if self._named is None else (self._named[1].name, "object")
        them = "it" if sum(map(len, chosen)) == 1 and not self._flags.driver else "them"
        self._stderr.write(f"Type the {what}'s name to take {them} off: {visible(name)}\n> ")
        self._stderr.flush()
        return typed(self._stdin) == name

    # -- telling

    def _show_for_question(self, held: Sequence[Held]) -> None:
        """Whoever is asked sees the proofs first; stdout gets them at the end."""
        if not self._flags.yes:
            self._stderr.write(self._as_text(held, width_of(self._stderr)))

    def _show(self, held: Sequence[Held]) -> None:
        from mooring.inspect.printing import as_json, as_yaml
        from mooring.inspect.unstick.render import as_values

        output = self._flags.o or self._flags.output
        if output == "text":
            self._stdout.write(self._as_text(held, width_of(self._stdout)))
            return
        values = [as_values(str(one.look), one.found, one.outcomes) for one in held]
        told = {"driver": self._flags.driver, "objects": values} if self._flags.driver else values[0]
        self._stdout.write((as_json if output == "json" else as_yaml)(told))

    def _as_text(self, held: Sequence[Held], width: int) -> str:
        from mooring.inspect.unstick.render import as_text

        if not held:
            return f"{visible(self._flags.driver)}: its attacher holds nothing that is being deleted\n"
        return "\n".join(as_text(str(one.look), one.found, one.outcomes, width) for one in held)

    def _say(self, text: str) -> None:
        self._stderr.write(f"{visible(text)}\n")
