"""`mooring dev kill-node` and `revive-node`: a node of a `mooring dev` in another terminal loses its power, and gets it
back.
"""

from __future__ import annotations

import dataclasses
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from mooring.base.errors import ConfigError
from mooring.base.flagkinds import FOLDER
from mooring.base.flags import UsageError, flag
from mooring.base.text import visible_lines
from mooring.cli.people import run_for_people, words_and_flags
from mooring.cli.process import Command
from mooring.cli.tables import ProcessFlags


@dataclasses.dataclass(frozen=True, kw_only=True)
class PowerFlags(ProcessFlags):
    state: str = flag(
        "state",
        FOLDER,
        "",
        "The folder of that mooring dev. Empty: that of $KUBECONFIG, else of the only one that runs without a "
        "folder of its own.",
    )


KILL: Final = "kill-node"
REVIVE: Final = "revive-node"
COMMANDS: Final[dict[str, Command[PowerFlags]]] = {
    KILL: Command(
        PowerFlags,
        about="Cuts the power of a NODE of a mooring dev that runs in another terminal: its agent and its driver end "
        "at once, and its "
        "mounts are gone. All else follows by rule, as in a cluster.",
        example="mooring dev kill-node n2",
    ),
    REVIVE: Command(
        PowerFlags,
        about="Gives a NODE of a mooring dev its power back: its driver and its agent start, and find what they find.",
        example="mooring dev revive-node n2",
    ),
}


def run(argv: Sequence[str], prog: str) -> int:
    """argv: one of COMMANDS, and what follows. Gives the exit code."""
    word, *rest = argv
    words, flags = words_and_flags(PowerFlags, rest, leading_max=1)
    return run_for_people(COMMANDS[word], flags, f"{prog} {word}", lambda given: _turn(word, words, given))


def _turn(word: str, words: Sequence[str], flags: PowerFlags) -> int:
    from mooring.dev.power import OFF, ON, ask

    if len(words) != 1:
        raise UsageError("give one NODE, as in n2")
    sys.stdout.write(visible_lines(ask(folder_of_dev(flags.state), OFF if word == KILL else ON, words[0])) + "\n")
    return 0


def folder_of_dev(state: str = "") -> Path:
    """The folder of the `mooring dev` that the person means. Raises ConfigError."""
    from mooring.dev.folder import PREFIX
    from mooring.dev.power import is_answering

    if state:
        return Path(state)
    known = Path(os.environ.get("KUBECONFIG", "").partition(os.pathsep)[0]).parent
    if is_answering(known):
        return known
    found = sorted(folder for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*") if is_answering(folder))
    if not found:
        raise ConfigError("no mooring dev is found: set KUBECONFIG as its start says")
    if len(found) > 1:
        raise ConfigError(
            f"several mooring dev run here: set KUBECONFIG as the start of one says: {', '.join(map(str, found))}"
        )
    return found[0]
