"""Counts what a controller does: lines of its code that run, and objects that its caches hand out."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final
from unittest import mock

import mooring
from mooring.kube.cache.store import Store

_SOURCE: Final = str(Path(mooring.__file__).parent)
_SERVER: Final = f"{_SOURCE}/apiserver"
Trace = Callable[[FrameType, str, Any], Any]


class Steps:
    """count: of all steps so far. longest: of the callback with the most, with its name. of_server: the API server's
    count, too.
    """

    def __init__(self, *, of_server: bool = False) -> None:
        self.count = 0
        self.longest = 0
        self.longest_of = ""
        self._of_server = of_server
        self._counted: dict[CodeType, bool] = {}

    @contextlib.contextmanager
    def counting(self) -> Iterator[None]:
        """Everything that runs meanwhile on this thread. The collector does not: the end of what others left behind
        would count.
        """
        values, by, run = Store.values, Store.by, asyncio.events.Handle._run

        def counted_values(store: Store[Any]) -> tuple[Any, ...]:
            found = values(store)
            self.count += len(found)
            return found

        def counted_by(store: Store[Any], index: str, value: str) -> tuple[Any, ...]:
            found = by(store, index, value)
            self.count += len(found)
            return found

        def counted_run(handle: asyncio.Handle) -> None:
            before = self.count
            run(handle)
            if self.count - before > self.longest:
                self.longest, self.longest_of = self.count - before, _name_of(handle)

        patches = (
            mock.patch.object(Store, "values", counted_values),
            mock.patch.object(Store, "by", counted_by),
            mock.patch.object(asyncio.events.Handle, "_run", counted_run),
        )
        with contextlib.ExitStack() as stack:
            for patch in patches:
                stack.enter_context(patch)
            gc.collect()
            before, collects = sys.gettrace(), gc.isenabled()
            gc.disable()
            sys.settrace(self._called)
            try:
                yield
            finally:
                sys.settrace(before)
                if collects:
                    gc.enable()

    def _called(self, frame: FrameType, _event: str, _arg: Any) -> Trace | None:
        code = frame.f_code
        counted = self._counted.get(code)
        if counted is None:
            counted = self._counted[code] = self._is_counted(code.co_filename)
        return self._line if counted else None

    def _line(self, _frame: FrameType, event: str, _arg: Any) -> Trace:
        if event == "line":
            self.count += 1
        return self._line

    def _is_counted(self, file: str) -> bool:
        return file.startswith(_SOURCE) and (self._of_server or not file.startswith(_SERVER))


def _name_of(handle: asyncio.Handle) -> str:
    """The task that the callback is a step of, or the callback itself."""
    callback = getattr(handle, "_callback", None)
    owner = getattr(callback, "__self__", None)
    return owner.get_name() if isinstance(owner, asyncio.Task) else getattr(callback, "__qualname__", str(callback))
