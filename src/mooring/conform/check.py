"""A check: one thing that is asked of a driver."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from mooring.conform.book.rule import Rule


class NotApplicable(Exception):
    """The check does not fit this driver or this run; the text says why."""


class Stopped(Exception):
    """The check can't go on: a call failed that must succeed. What is wrong is found already."""


class Check(msgspec.Struct, frozen=True):
    """name: as on the command line. about: what is asked, in a sentence. rule: of the book, to which it belongs.

    needs: abilities without which it is skipped, as in `Controller.LIST_VOLUMES`. sanity: the tests of csi-sanity that
    ask the same. restarts: it can only be made of a driver that this run has started. last: a driver that breaks it may
    have lost all its volumes, so it is made after most others.
    """

    name: str
    about: str
    rule: Rule
    run: Callable[[Any], Awaitable[None]]
    needs: tuple[str, ...] = ()
    sanity: tuple[str, ...] = ()
    restarts: bool = False
    last: bool = False


class Chapter:
    """Checks in order. sanity: the group of csi-sanity's tests to which they belong, and which their names begin
    with.
    """

    def __init__(self, sanity: str = "") -> None:
        self.checks: list[Check] = []
        self._sanity = sanity

    def check(
        self, rule: Rule, *needs: str, sanity: tuple[str, ...] | str = (), restarts: bool = False, last: bool = False
    ) -> Callable[[Callable[[Any], Awaitable[None]]], Callable[[Any], Awaitable[None]]]:
        """Makes a check of a coroutine function; its docstring is what is asked."""

        def made(run: Callable[[Any], Awaitable[None]]) -> Callable[[Any], Awaitable[None]]:
            about = " ".join((inspect.getdoc(run) or "").split())
            assert about, "a check says what is asked"
            assert inspect.iscoroutinefunction(run)
            self.add(run.__name__.replace("_", "-"), about, rule, run, needs, sanity, restarts=restarts, last=last)
            return run

        return made

    def add(
        self,
        name: str,
        about: str,
        rule: Rule,
        run: Callable[[Any], Awaitable[None]],
        needs: tuple[str, ...],
        sanity: tuple[str, ...] | str = (),
        *,
        restarts: bool = False,
        last: bool = False,
    ) -> None:
        tests = (sanity,) if isinstance(sanity, str) else sanity
        self.checks.append(
            Check(name, about, rule, run, needs, tuple(f"{self._sanity}{test}" for test in tests), restarts, last)
        )
