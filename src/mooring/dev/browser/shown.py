"""A plane shown in a browser: the feed of its story, its board, and the switches behind the page's buttons."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import AsyncGenerator
from typing import Final

from mooring.base.clock import Clock
from mooring.base.metrics import Metrics
from mooring.base.randomness import Random
from mooring.control.runtime import Runtime
from mooring.dev.browser.buttons import Buttons
from mooring.dev.browser.feed import Feed, Listeners
from mooring.dev.browser.serving import serving
from mooring.dev.live.model import Model
from mooring.dev.live.watching import viewed
from mooring.dev.options import Patience
from mooring.dev.plane import Plane
from mooring.dev.power import Switches
from mooring.dev.story import Listener, Screen, Story

_TOKEN_BYTES: Final = 24


class Browser:
    """One page. screen, listener: to be given to the story in place of these."""

    def __init__(self, clock: Clock, randomness: Random) -> None:
        self._clock, self._randomness = clock, randomness
        self._feed = Feed(clock)
        self._model = Model(self._feed.changed)

    def screen(self, screen: Screen) -> Screen:
        return self._feed.over(screen)

    def listener(self, other: Listener | None) -> Listener:
        return Listeners(other, self._model)

    @contextlib.asynccontextmanager
    async def of(self, plane: Plane, patience: Patience, story: Story) -> AsyncGenerator[None, None]:
        """Serves the page as long as the block runs, and says where. What its buttons have begun ends with it. Raises ConfigError."""
        assert plane.faults is not None, "a page has buttons for faults"
        runtime = Runtime(plane.cluster, self._clock, self._randomness, Metrics())
        switches = Switches(plane.nodes, plane.cluster, patience).by_turn
        buttons = Buttons(switches, plane.controllers, plane.faults, story)
        page = serving(self._feed, buttons.acts, buttons.state, secrets.token_urlsafe(_TOKEN_BYTES))
        async with viewed(self._feed, self._model, runtime, snapshots=plane.extras.snapshots), page as url:
            story.title(f"In a browser, for you alone: {url}")
            try:
                yield
            finally:
                buttons.release()
