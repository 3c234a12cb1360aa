"""Runs a program, and ends it with everything that it has started once the starter is gone, however the starter ended.

    python supervisor.py PROGRAM ARGUMENT...

The starter holds the other end of the supervisor's standard input. When this input ends, as it does by itself when the
starter dies, the supervisor kills the program's whole process group. SIGTERM goes on to the group; the exit code is the
program's. It imports the standard library alone: it runs without the project's packages, and starts at once.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading


def main() -> int:
    started: list[subprocess.Popen[bytes]] = []
    asked: list[int] = []

    def end(number: int, _frame: object) -> None:
        asked.append(number)
        for program in started:
            send(program.pid, number)

    signal.signal(signal.SIGTERM, end)
    try:
        program = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, start_new_session=True)
    except OSError as error:
        sys.stderr.write(f"{sys.argv[1]}: {error.strerror}\n")
        return 127
    started.append(program)
    if asked:
        send(program.pid, asked[0])
    threading.Thread(target=mind_input, args=(program.pid,), daemon=True).start()
    os.waitid(os.P_PID, program.pid, os.WEXITED | os.WNOWAIT)  # not reaped: its number is nobody else's yet
    send(program.pid, signal.SIGKILL)
    return exit_code(program.wait())


def mind_input(group: int) -> None:
    while os.read(0, 4096):
        pass
    send(group, signal.SIGKILL)


def send(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        pass


def exit_code(code: int) -> int:
    """Return a shell's exit code: 128 and the number of the signal."""
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
