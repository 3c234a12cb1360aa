"""Prints the figures of the trips, or one of them with all that ran."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Final

from tests.support.virtual_loop import run_virtual
from tests.trips.tracer import Tracer
from tests.trips.trips import TRIPS

#: Files, calls and distinct functions of a trip before and after the third drawing of the house.
EARLIER: Final[Mapping[str, tuple[str, str, str]]] = {
    "attach": ("38 → 30", "492 → 564", "160 → 188"),
    "claim": ("58 → 40", "823 → 1066", "270 → 321"),
}


def main(names: list[str]) -> int:
    """Print the trips of these names, all for none. Returns the exit code."""
    if unknown := [name for name in names if name not in TRIPS]:
        print(f"there is no trip {', '.join(unknown)}; there are {', '.join(TRIPS)}", file=sys.stderr)
        return 2
    print(_row("trip", "calls", "functions", "crossings", "files", "earlier: calls", "functions", "files"))
    for name in names or TRIPS:
        tracer = Tracer()
        run_virtual(TRIPS[name](tracer))
        files, calls, functions = EARLIER.get(name, ("", "", ""))
        now = (tracer.calls, tracer.functions, tracer.crossings, len(tracer.files))
        print(_row(name, *now, calls, functions, files))
        for file, ran in sorted(tracer.files.items()) if names else ():
            print(f"  {file}: {', '.join(sorted(ran))}")
    return 0


def _row(*cells: object) -> str:
    return "  ".join(
        f"{cell!s:<{width}}" for cell, width in zip(cells, (8, 5, 9, 9, 5, 14, 9, 7), strict=True)
    ).rstrip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
