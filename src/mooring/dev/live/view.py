"""The screen of `mooring dev`: the view where it can be shown, else lines. Rich is loaded for the view alone."""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TextIO

from mooring.base.clock import Clock
from mooring.base.metrics import Metrics
from mooring.base.randomness import Random
from mooring.control.runtime import Runtime
from mooring.dev.screen import Shown, TerminalStream, screen_for
from mooring.dev.story import Listener
from mooring.kube.cluster import Cluster


class LiveView(Protocol):
    """model: hears of the story's events, None for nobody."""

    @property
    def screen(self) -> Shown: ...
    @property
    def model(self) -> Listener | None: ...
    def of(self, cluster: Cluster, *, snapshots: bool) -> AbstractAsyncContextManager[None]:
        """Shows this plane as long as the block runs. snapshots: it has their kinds."""


def view_for(
    stream: TerminalStream,
    keyboard: TextIO | None,
    when_gone: Callable[[], None],
    clock: Clock,
    randomness: Random,
    *,
    plain: bool,
) -> LiveView:
    """plain: never more than lines. when_gone: as for PlainScreen."""
    is_terminal = stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    if plain or not is_terminal or importlib.util.find_spec("rich") is None:
        return _Lines(screen_for(stream, when_gone))
    return _Live(stream, keyboard, when_gone, clock, randomness)


class _Lines:
    def __init__(self, screen: Shown) -> None:
        self.screen = screen
        self.model = None

    def of(self, cluster: Cluster, *, snapshots: bool) -> AbstractAsyncContextManager[None]:
        return contextlib.nullcontext()


class _Live:
    def __init__(
        self,
        stream: TerminalStream,
        keyboard: TextIO | None,
        when_gone: Callable[[], None],
        clock: Clock,
        randomness: Random,
    ) -> None:
        from mooring.dev.live.model import Model  # noqa: PLC0415 (here, so that lines need no rich)
        from mooring.dev.live.screen import ViewScreen  # noqa: PLC0415

        self.screen = ViewScreen(stream, keyboard, when_gone)
        self.model = Model(self.screen.changed)
        self._clock, self._randomness = clock, randomness

    def of(self, cluster: Cluster, *, snapshots: bool) -> AbstractAsyncContextManager[None]:
        from mooring.dev.live.watching import viewed  # noqa: PLC0415

        return viewed(
            self.screen, self.model, Runtime(cluster, self._clock, self._randomness, Metrics()), snapshots=snapshots
        )
