"""Prints the trips with their budgets, or one of them with all that ran."""

from __future__ import annotations

import sys

from tests.support.virtual_loop import run_virtual
from tests.trips.tracer import Tracer
from tests.trips.trips import TRIPS, Trip


def main(names: list[str]) -> int:
    """names: of trips, none for all. Returns 1 when one of them is over its budget."""
    is_over = False
    for name in names or TRIPS:
        trip, tracer = TRIPS[name], Tracer()
        run_virtual(trip.follow(tracer))
        _show(name, trip, tracer, in_full=bool(names))
        is_over |= bool(trip.excess(tracer.files))
    return int(is_over)


def _show(name: str, trip: Trip, tracer: Tracer, *, in_full: bool) -> None:
    print(f"{name}: {len(tracer.files)} files, at most {trip.files_max}")
    if trip.room:
        print(f"  {len(trip.of_room(tracer.files))} of {trip.room}, at most {trip.room_max}")
    for file, functions in sorted(tracer.files.items()) if in_full else ():
        print(f"  {file}: {', '.join(sorted(functions))}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
