"""In place of Go's pprof: the stacks of every task and thread of the process, as text."""

from __future__ import annotations

import asyncio
import io
import sys
import threading
import traceback
from collections.abc import Mapping

from mooring.base.diagnostics import Reply, Route


def stack_routes() -> Mapping[str, Route]:
    """`/debug/pprof/` and Go's paths for stacks and command line. Profiles of CPU and heap are not there: py-spy and memray make those."""
    return {"/debug/pprof/": _stacks, "/debug/pprof/goroutine": _stacks, "/debug/pprof/cmdline": _command_line}


async def _stacks() -> Reply:
    page = io.StringIO()
    for task in asyncio.all_tasks():
        frames = ((frame, frame.f_lineno or 0) for frame in task.get_stack())  # compiled coroutines, as gRPC's, are on no line
        page.write(f"task {task.get_name()}\n{''.join(traceback.StackSummary.extract(frames).format())}")
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        page.write(f"thread {names.get(ident, ident)}\n{''.join(traceback.format_stack(frame))}")
    return Reply(200, page.getvalue())


async def _command_line() -> Reply:
    return Reply(200, "\0".join(sys.argv))
