"""`mooring unstick`: takes finalizers off an object that is being deleted, once it is proved that nothing needs them.

| exit code | when |
|---|---|
| 0 | no finalizer holds the object any more |
| 3 | a finalizer is left |
| 2 | a command line that is wrong |
| 1 | it could not look, it refused to take anything off, or somebody said no |
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TextIO

from mooring.base.errors import ConfigError
from mooring.base.flagkinds import BOOL, DURATION, NAMESPACE, STRING, word_of
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
    csi_address: str = flag(
        "csi-address",
        STRING,
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
    if flags.timeout_s <= 0:
        raise ConfigError("--timeout: must be greater than zero", exit_code=2)


COMMAND: Final[Command[UnstickFlags]] = Command(
    UnstickFlags,
    check=_check,
    epilog=_EXIT_CODES,
    about="Frees an object that is being deleted from its finalizers, where driver and API server prove that nothing needs them; "
    "refuses otherwise, and says why.",
    example="mooring unstick --dry-run volumeattachment/csi-0123abcd",
)


def run(argv: Sequence[str], prog: str, machine: Machine | None = None) -> int:
    """argv: the words after `mooring unstick`: the object, as `pv/data` or `pv data`, and flags. Gives the exit code."""
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


class UnstickCommand:
    """The command on its ports. words: the object. home: the namespace where none is named. streams: stdin, stdout, stderr."""

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
        self._kind, self._key = object_named(words, flags.namespace or flags.n or home, "mooring unstick", KINDS)
        self._outcomes: dict[str, str] = {}
        self._witness: Witness | None = None

    async def run(self) -> int:
        """Gives the exit code. Raises MooringError."""
        from mooring.inspect.unstick.table import verdicts

        look = await self._look()
        facts = await look.first()
        found = verdicts(facts)
        self._check_named(found)
        if not found or self._flags.dry_run:
            self._show(found)
            return LEFT if found else CLEAN
        detach = self._detach_of(facts) if self._flags.detach else None
        then = detach.then if detach is not None else found
        chosen = [
            one for one in then if (self._flags.force or one.may_go) and self._flags.finalizer in ("", one.finalizer)
        ]
        if not chosen:
            self._show(found)
            self._say("nothing is taken off: the report says what speaks against it")
            return CANNOT
        self._show_for_question(found)
        if detach is not None:
            self._say(
                f"the driver is called to detach volume {detach.handle} from node {detach.node} (node id {detach.node_id})"
            )
        if not self._is_confirmed(chosen):
            self._show(found)
            self._say("nothing is taken off without the object's name")
            return CANNOT
        if detach is not None:
            found = await self._detached(look, detach)
        self._outcomes = await self._removal(look).run([one.finalizer for one in chosen])
        self._show(found)
        return LEFT if any(self._outcomes.get(one.finalizer, "not asked for") for one in found) else CLEAN

    async def _look(self) -> Look:
        from mooring.inspect.unstick.driver_word import Witness
        from mooring.inspect.unstick.look import Look

        driver, timeout_s = self._driver, self._flags.timeout_s
        self._witness = None if driver is None else await Witness.met(driver, self._clock, timeout_s)
        return Look(self._cluster, self._clock, self._kind, self._key, self._witness, self._say)

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

    async def _detached(self, look: Look, detach: Detach) -> tuple[Verdict, ...]:
        """Calls the driver, and gives the verdicts from then on. Raises MooringError."""
        from mooring.inspect.unstick.detaching import detached
        from mooring.inspect.unstick.table import verdicts

        assert self._witness is not None
        look.told = await detached(detach, self._cluster, self._witness)
        facts = await look.again()
        return verdicts(facts) if facts is not None else ()

    def _removal(self, look: Look) -> Removal:
        from mooring.inspect.unstick.look import KINDS
        from mooring.inspect.unstick.take_off import Removal

        return Removal(
            self._cluster, self._clock, KINDS[self._kind], look, self._flags.reason if self._flags.force else ""
        )

    def _check_named(self, found: Sequence[Verdict]) -> None:
        held = [one.finalizer for one in found]
        if self._flags.finalizer and held and self._flags.finalizer not in held:
            raise ConfigError(
                f"--finalizer: {self._flags.finalizer} does not hold the object; {', '.join(held)} do", exit_code=2
            )

    def _is_confirmed(self, chosen: Sequence[Verdict]) -> bool:
        if self._flags.yes:
            return True
        for one in chosen:
            self._say(f"  {one.finalizer}" + ("" if one.may_go else f": NOT PROVED, it protects {one.protects}"))
        self._stderr.write(
            f"Type the object's name to take {'it' if len(chosen) == 1 else 'them'} off: {visible(self._key.name)}\n> "
        )
        self._stderr.flush()
        return typed(self._stdin) == self._key.name

    # -- telling

    def _show_for_question(self, found: Sequence[Verdict]) -> None:
        """Whoever is asked sees the proofs first; stdout gets them at the end."""
        from mooring.inspect.unstick.render import as_text

        if not self._flags.yes:
            self._stderr.write(as_text(self._subject(), found, {}, width_of(self._stderr)))

    def _show(self, found: Sequence[Verdict]) -> None:
        from mooring.inspect.unstick.render import as_text, as_values

        if (self._flags.o or self._flags.output) == "text":
            self._stdout.write(as_text(self._subject(), found, self._outcomes, width_of(self._stdout)))
        else:
            self._stdout.write(self._values(as_values(self._subject(), found, self._outcomes)))

    def _values(self, values: Any) -> str:
        from mooring.inspect.printing import as_json, as_yaml

        return as_json(values) if (self._flags.o or self._flags.output) == "json" else as_yaml(values)

    def _subject(self) -> str:
        return f"{self._kind} {self._key}"

    def _say(self, text: str) -> None:
        self._stderr.write(f"{visible(text)}\n")
