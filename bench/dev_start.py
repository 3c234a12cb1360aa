"""How long `mooring dev` takes until it is ready, from its start as a process, with bytecode on the disk.

python -m bench.dev_start --nodes 3 --rounds 5
"""

from __future__ import annotations

import argparse
import signal
import statistics
import subprocess
import sys
import time

from bench.interpreter import interpreter


def ready_s(nodes: int) -> float:
    """One start, ended again."""
    command = [sys.executable, "-m", "mooring.cli.mooring", "dev", f"--nodes={nodes}"]
    began = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as program:
        assert program.stdout is not None
        try:
            lines = iter(program.stdout.readline, "")
            if not any(line.startswith("Ready.") for line in lines):
                raise SystemExit("mooring dev did not come up")
            took_s = time.monotonic() - began
        finally:
            program.send_signal(signal.SIGTERM)
            program.stdout.read()
    return took_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    ready_s(given.nodes)  # writes bytecode where there is none
    found = [ready_s(given.nodes) for _ in range(given.rounds)]
    figures = f"{statistics.median(found):.2f} ({min(found):.2f} to {max(found):.2f})"
    print(f"{interpreter()}\nmooring dev --nodes {given.nodes} to Ready (s): {figures}")


if __name__ == "__main__":
    main()
