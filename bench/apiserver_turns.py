"""Writes to both API servers by turns, on a machine whose speed changes: `python -m bench.apiserver_turns`.

Both run all the time, and have the same load for some seconds each; the median of the ratios of their rates counts.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence

from bench.apiserver import Embedded, Figures, Real, Server
from bench.tables import heading

_WRITES = ("create", "update", "patch")
_CLIENTS = (1, 32)
_NAMES = 1000


def ratios(servers: Sequence[Server], rounds: int, seconds: float) -> dict[tuple[str, int], list[float]]:
    """By what is written and by how many clients: the second server's rate beside the first one's, in each round."""
    loads = [Figures(server, seconds) for server in servers]
    for figures in loads:
        figures.load(what="create", tag="read", clients=8, count=_NAMES)
    found: dict[tuple[str, int], list[float]] = {(what, clients): [] for what in _WRITES for clients in _CLIENTS}
    for number in range(rounds):
        for (what, clients), several in found.items():
            job = {"tag": f"made-{clients}-{number}"} if what == "create" else {"tag": "read", "names": _NAMES}
            rates = [figures.load(what=what, clients=clients, seconds=seconds, **job)["rate"] for figures in loads]
            several.append(rates[1] / rates[0])
            told = ", ".join(f"{one.server.name} {rate:,.0f}/s" for one, rate in zip(loads, rates, strict=True))
            print(f"round {number + 1}, {what}, clients {clients}: {told}", file=sys.stderr, flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="how long each kind of write is made")
    options = parser.parse_args()
    servers: list[Server] = []
    try:
        servers += [Real()]
        servers += [Embedded()]
        found = ratios(servers, options.rounds, options.seconds)
    finally:
        for server in servers:
            server.stop()
    print(f"{heading('kube-apiserver 1.36 on etcd 3 with fsync')}\n")
    print("| requests a second, Mooring beside kube-apiserver + etcd | 1 client | 32 clients |\n|---|---|---|")
    for what in _WRITES:
        print(f"| {what} | {' | '.join(_text(found[what, clients]) for clients in _CLIENTS)} |")


def _text(several: Sequence[float]) -> str:
    return f"{statistics.median(several):.2f} ({min(several):.2f} to {max(several):.2f})"


if __name__ == "__main__":
    main()
