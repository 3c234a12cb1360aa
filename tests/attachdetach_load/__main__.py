"""The whole run: `python -m tests.attachdetach_load --seconds 300`. Exit code 1, and the folder kept, when a rule was
broken.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
import traceback
from pathlib import Path

from tests.attachdetach_load.course import Size, a_course
from tests.attachdetach_load.parts import Parts
from tests.support.control_plane import ControlPlane


async def _run(plane: ControlPlane, parts: Parts, size: Size) -> None:
    async with a_course(plane, parts, size, lambda line: print(line, flush=True)) as course:
        await course.run()
        print(f"held: {course.line()}; {await course.multi_attach_events()} pods were told of another node", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.attachdetach_load", description="Moves pods while controllers are killed."
    )
    parser.add_argument("--pods", type=int, default=300)
    parser.add_argument("--nodes", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=300.0, help="how long pods move")
    parser.add_argument("--moves", type=float, default=4.0, help="a second")
    parser.add_argument("--kill-every", type=float, default=8.0, help="seconds between two kills, on average")
    parser.add_argument(
        "--seed", type=int, default=random.randrange(1 << 32), help="what is drawn; the timing is the machine's"
    )
    options = parser.parse_args()
    size = Size(options.pods, options.nodes, options.seconds, options.moves, options.kill_every, options.seed)
    folder = Path(tempfile.mkdtemp(prefix="attachdetach-load-"))
    print(f"seed {size.seed}, logs in {folder}", flush=True)
    plane = ControlPlane.start()
    parts = Parts(plane, folder, size.seed)
    try:
        asyncio.run(_run(plane, parts, size))
    except Exception:  # also an ExceptionGroup of the followers
        traceback.print_exc(file=sys.stdout)
        print(f"BROKEN, logs in {folder}")
        return 1
    finally:
        parts.stop()
        plane.stop()
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
