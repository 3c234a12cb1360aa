"""Scenes of one program, each in a process and a folder of its own: it is forked from one that has all modules loaded.

A program with scenes ends with `sys.exit(play(...))`; the tests start it by `played`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Final

from tests.support.mount_namespace import MountNamespace

SCENE_S: Final = 60
_ENDING_S: Final = 10


def play(scenes: Mapping[str, Callable[[Path], None]], folder: Path, names: Iterable[str]) -> None:
    """Plays these scenes one after another, and writes what each has said: a line of JSON; "" of one that went well."""
    for name in names:
        (folder / name).mkdir()
        said = folder / f"{name}.log"
        child = os.fork()
        if child == 0:
            _alone(scenes[name], folder / name, said)
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        print(json.dumps({name: f"ended with {code}\n{said.read_text()}" if code else ""}), flush=True)


def _alone(scene: Callable[[Path], None], folder: Path, said: Path) -> None:
    code = 1
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(SCENE_S)
    with said.open("w") as out, redirect_stdout(out), redirect_stderr(out):
        try:
            scene(folder)
            code = 0
        except BaseException:
            traceback.print_exc()
    os._exit(code)


def _too_long(*_: object) -> None:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(_ENDING_S)
    raise TimeoutError(f"it took more than {SCENE_S} s")


def played(namespace: MountNamespace, module: str, folder: Path, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The name of each scene, and what went wrong in it."""
    words = namespace.command(sys.executable, "-m", module, folder, *names)
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, timeout=SCENE_S * 10, check=True)
    for line in done.stdout.splitlines():
        yield from json.loads(line).items()
