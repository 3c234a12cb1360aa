"""A command of the user's own that says whether a machine is dead: exit code 0 says so. No shell reads it."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
from typing import Final

from mooring.base.border import reason
from mooring.base.errors import ConfigError
from mooring.base.text import visible
from mooring.inspect.fencing.judge import ProverAnswer

SAID_MAX: Final = 200
NODE: Final = "{node}"


def words_of(command: str, node: str) -> tuple[str, ...]:
    """The words of the command, with the node's name in place of {node}. Raises ConfigError."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ConfigError(f"--prover: can't be read: {error}", exit_code=2) from None
    if not words:
        raise ConfigError("--prover: names no command", exit_code=2)
    return tuple(word.replace(NODE, node) for word in words)


async def asked(command: str, node: str, timeout_s: float) -> ProverAnswer:
    """Runs it, and ends it when its time is over. Raises ConfigError where it can't be run."""
    words = words_of(command, node)
    try:
        process = await asyncio.create_subprocess_exec(
            *words, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
    except OSError as error:
        raise ConfigError(f"--prover: {words[0]} can't be run: {reason(error)}") from None
    try:
        async with asyncio.timeout(timeout_s):
            output, _ = await process.communicate()
    except TimeoutError:
        return ProverAnswer(words[0], None)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    lines = output.decode(errors="replace").split("\n")
    said = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return ProverAnswer(words[0], process.returncode, visible(said)[:SAID_MAX])
