"""`mooring why`: which link of an object's chain blocks, whose move it is, and what to type next. Reads only.

| exit code | when |
|---|---|
| 0 | nothing is in the way |
| 3 | a program of the cluster is at work, and goes on by itself |
| 4 | the owner of the pod, claim or snapshot has to change something |
| 5 | who runs the cluster has to change something |
| 6 | the CSI driver, or the storage behind it, refuses or does not answer |
| 7 | the rights do not suffice to say |
| 2 | a command line that is wrong |
| 1 | it could not look, or the object does not exist |
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TextIO

from mooring.base.flagkinds import BOOL, NAMESPACE, word_of
from mooring.base.flags import Parsed, flag
from mooring.base.text import visible
from mooring.cli.objects import object_named
from mooring.cli.people import answer_of, check_output, run_for_people, width_of, words_and_flags
from mooring.cli.process import Command, Machine
from mooring.cli.tables import AsKubectlFlags, ProcessFlags

if TYPE_CHECKING:
    from mooring.api.meta import Key
    from mooring.base.clock import Clock
    from mooring.inspect.why.chain import Chain
    from mooring.kube.cluster import Cluster

CANNOT: Final = 1
OUTPUTS: Final = ("text", "json", "yaml")
LOOKS_AGAIN_S: Final = 2.0

_EXIT_CODES: Final = """
Exit codes, by whose move it is: 0 nothing is in the way; 3 the cluster goes on
by itself; 4 the owner of the object; 5 who runs the cluster; 6 the driver or
its storage; 7 somebody with more rights has to look; 2 the command line is
wrong; 1 it could not look.
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class WhyFlags(AsKubectlFlags, ProcessFlags):
    namespace: str = flag(
        "namespace",
        NAMESPACE,
        "",
        "The object's namespace. Empty: the kubeconfig's. Without an object: list this namespace alone.",
    )
    n: str = flag("n", NAMESPACE, "", "The same as --namespace.")
    output: str = flag("output", word_of(*OUTPUTS), "text", "text, json or yaml.")
    o: str = flag("o", word_of(*OUTPUTS), "", "The same as --output.")
    watch: bool = flag(
        "watch", BOOL, False, "Look again every two seconds, and print what has changed, until nothing is in the way."
    )


def _check(parsed: Parsed[WhyFlags]) -> None:
    check_output(parsed.flags.o or parsed.flags.output, *OUTPUTS)


COMMAND: Final[Command[WhyFlags]] = Command(
    WhyFlags,
    check=_check,
    epilog=_EXIT_CODES,
    about="Says why an object is stuck: each link of its chain, the one that blocks, whose move it is, and the next "
    "command. "
    "Without an object: all that is stuck, worst first. Reads only, on any cluster.",
    example="mooring why --namespace=shop pod/web-0",
)


def run(argv: Sequence[str], prog: str, machine: Machine | None = None) -> int:
    """argv: the words after `mooring why`: the object, as `pod/web-0` or `pod web-0`, and flags. Gives the exit
    code.
    """
    words, flags = words_and_flags(WhyFlags, argv)
    return run_for_people(
        COMMAND, flags, prog, lambda given: answer_of(_on_the_network(words, given, machine or Machine()), prog, CANNOT)
    )


async def _on_the_network(words: Sequence[str], flags: WhyFlags, machine: Machine) -> int:
    from mooring.base.clock import LoopClock
    from mooring.cli.clusters import client_for_people, load_config_as_kubectl

    clock = LoopClock()
    config = load_config_as_kubectl(flags.kubeconfig, machine)
    async with client_for_people("mooring-why", flags.kubeconfig, machine, clock=clock) as cluster:
        return await Why(flags, words, cluster, clock, config.namespace, sys.stdout, sys.stderr).run()


class Why:
    """The command on its ports. words: the object, none for all. home: the namespace where none is named."""

    def __init__(
        self,
        flags: WhyFlags,
        words: Sequence[str],
        cluster: Cluster,
        clock: Clock,
        home: str,
        stdout: TextIO,
        stderr: TextIO,
    ) -> None:
        from mooring.inspect.served import as_served

        self._flags, self._words, self._clock, self._home, self._stdout = flags, words, clock, home, stdout
        self._cluster, self._stderr = as_served(cluster), stderr
        self._namespace, self._output = flags.namespace or flags.n, flags.o or flags.output

    async def run(self) -> int:
        """Gives the exit code. Raises ConfigError, and ApiError for a server that does not answer."""
        shown = ""
        while True:
            code, text = await self._look()
            if text != shown:
                self._stdout.write(text)
                self._stdout.flush()
                shown = text
            if not self._flags.watch or code == 0:
                return code
            await self._clock.sleep(LOOKS_AGAIN_S)

    async def _look(self) -> tuple[int, str]:
        if not self._words:
            return await self._all()
        return await self._one(*object_named(self._words, self._namespace or self._home, "mooring why"))

    async def _one(self, kind: str, key: Key) -> tuple[int, str]:
        from mooring.inspect.reading import Reading
        from mooring.inspect.why.at_work import looked_closer
        from mooring.inspect.why.chains import explained
        from mooring.inspect.why.render import as_text, as_values

        now_s = self._clock.wall_s()
        reading = Reading(self._cluster, now_s)
        chain = await explained(reading, kind, key)
        chain = await looked_closer(chain, reading.scene, self._cluster, self._clock, self._say)
        text = (
            as_text(chain, now_s, width_of(self._stdout)) if self._output == "text" else self._values(as_values(chain))
        )
        return chain.exit_code, text

    async def _all(self) -> tuple[int, str]:
        from mooring.inspect.why.render import as_list, as_values
        from mooring.inspect.why.stuck import Stuck

        now_s = self._clock.wall_s()
        stuck = Stuck(self._cluster, now_s, self._namespace or None)
        chains = await stuck.chains()
        if self._output != "text":
            return _worst(chains), self._values(
                {"stuck": [as_values(chain) for chain in chains], "notListed": stuck.refused}
            )
        text = as_list(chains, now_s, width_of(self._stdout)) if chains else "nothing is stuck\n"
        return _worst(chains), text + "".join(f"not listed: {visible(one)}\n" for one in stuck.refused)

    def _say(self, text: str) -> None:
        self._stderr.write(f"{visible(text)}\n")

    def _values(self, values: Any) -> str:
        from mooring.inspect.printing import as_json, as_yaml

        return as_json(values) if self._output == "json" else as_yaml(values)


def _worst(chains: Sequence[Chain]) -> int:
    return chains[0].exit_code if chains else 0
