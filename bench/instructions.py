"""What a request costs the embedded API server in machine instructions: `python -m bench.instructions [CHECKOUT ...]`.

Valgrind's callgrind counts them, so that a busy machine changes nothing: two commits can be told apart by less than a hundredth, where
processor time on a shared machine varies by a third. The system's own work, such as sending, is not counted. Each job runs twice, with
few requests and with many; the difference leaves out connections and handshakes. CHECKOUT: the root of each tree to measure, this one where
none is named; all run on this interpreter and with its libraries.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from tests.support.programs import Program, free_ports

_ROOT: Final = Path(__file__).resolve().parents[1]
_JOBS: Final = (
    ("get", 1, 300, 2300),
    ("get", 32, 300, 2300),
    ("list", 1, 20, 120),
    ("create", 1, 100, 600),
    ("create", 32, 100, 600),
    ("update", 1, 100, 600),
    ("patch", 1, 100, 600),
    ("patch", 32, 100, 600),
    ("delete", 1, 100, 600),
)
"""What, with how many clients, the few requests, and the many."""
_OBJECTS: Final = 200
_SHOWN: Final = 120  # letters of an error
_START_S: Final = 120.0


class _Counted:
    """A server under callgrind, which counts nothing yet."""

    def __init__(self, checkout: Path, folder: Path) -> None:
        self._folder, self._port, kubeconfig = folder, free_ports(1)[0], folder / "kubeconfig"
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/counts", "--instr-atstart=no", sys.executable]
        command += [
            "-m",
            "mooring.cli.mooring",
            "apiserver",
            f"--state={folder}/state",
            f"--kubeconfig={kubeconfig}",
            f"--port={self._port}",
        ]
        self.program = Program(command, folder / "log", env={**os.environ, "PYTHONPATH": str(checkout / "src"), "PYTHONHASHSEED": "0"})
        deadline = time.monotonic() + _START_S
        while not kubeconfig.exists() or not kubeconfig.stat().st_size:
            self.program.assert_alive()
            assert time.monotonic() < deadline, "the server does not come up"
            time.sleep(0.1)
        config = json.loads(kubeconfig.read_text())
        self._ca = base64.b64decode(config["clusters"][0]["cluster"]["certificate-authority-data"]).decode()
        self._token = config["users"][0]["user"]["token"]

    def load(self, **job: Any) -> None:
        job |= {"host": "127.0.0.1", "port": self._port, "ca": self._ca, "token": self._token}
        command = [sys.executable, "-m", "bench.apiload"]
        done = subprocess.run(command, cwd=_ROOT, input=json.dumps(job) + "\n", capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-_SHOWN:]

    def count(self) -> None:
        self._control("-i", "on")

    def instructions(self, **job: Any) -> int:
        """Those of the server from the job's begin to its end."""
        self._control("-z")
        self.load(**job)
        before = set(self._folder.glob("counts*"))
        self._control("-d")
        (dump,) = set(self._folder.glob("counts*")) - before
        (total,) = [int(line.split()[1]) for line in dump.read_text().splitlines() if line.startswith("totals:")]
        return total

    def _control(self, *flags: str) -> None:
        subprocess.run(["callgrind_control", *flags, str(self.program.pid)], capture_output=True, check=True)


def costs(checkout: Path) -> dict[str, int]:
    """Instructions of one request, by what it is."""
    found = {}
    with tempfile.TemporaryDirectory(prefix="mooring-bench-") as name:
        server = _Counted(checkout, Path(name))
        try:
            for what in ("create", "get", "list", "update", "patch"):  # (what the first of a kind makes for all is there before)
                server.load(what=what, tag="read", names=_OBJECTS, clients=4, count=_OBJECTS)
            for what in ("create", "delete"):
                server.load(what=what, tag="gone", names=_OBJECTS, clients=4, count=_OBJECTS)
            server.count()
            for what, clients, few, many in _JOBS:
                counts = []
                for times in (few, many):
                    tag, names = ("read", _OBJECTS) if what not in ("create", "delete") else (f"{what}-{clients}-{times}", times)
                    if what == "delete":
                        server.load(what="create", tag=tag, clients=4, count=times)
                    counts.append(server.instructions(what=what, tag=tag, clients=clients, names=names, count=times))
                found[f"{what}, {clients} client{'s' if clients > 1 else ''}"] = round((counts[1] - counts[0]) / (many - few))
        finally:
            server.program.kill()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.instructions", description=__doc__, allow_abbrev=False)
    parser.add_argument("checkouts", nargs="*", type=Path, default=[_ROOT], metavar="CHECKOUT")
    rows: dict[str, list[int]] = {}
    checkouts = parser.parse_args().checkouts
    for checkout in checkouts:
        print(f"... {checkout}", file=sys.stderr, flush=True)
        for title, cost in costs(checkout.resolve()).items():
            rows.setdefault(title, []).append(cost)
    for title, row in rows.items():
        ratios = "".join(f" ({cost / row[0]:.3f})" if place else "" for place, cost in enumerate(row))
        print(f"{title:20} {' '.join(f'{cost:>10,}' for cost in row)}{ratios}")


if __name__ == "__main__":
    main()
