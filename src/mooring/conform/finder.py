"""What a run has found: each broken rule once for each call, told with the check that asks about it."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from google.protobuf.message import Message

from mooring.base.text import shortened, visible
from mooring.conform.book import errors
from mooring.conform.book.node import NO_TARGET
from mooring.conform.book.publishing import FORGOTTEN as UNPUBLISH_FORGOTTEN
from mooring.conform.book.rule import Breach, Rule
from mooring.conform.book.snapshots import DELETE_ABSENT as NO_SNAPSHOT
from mooring.conform.book.subject import named_by
from mooring.conform.book.volumes import DELETE_ABSENT, FORGOTTEN
from mooring.conform.finding import Finding
from mooring.conform.options import Options
from mooring.csi.driver import Rpc
from mooring.csi.redact import scrubbed
from mooring.csi.scrub import without
from mooring.wire.grpc.codes import go_name

_OF_THEIR_CHECKS: Final = frozenset({DELETE_ABSENT, NO_SNAPSHOT})
"""While a run cleans up, NotFound says that the object is gone."""
_OF_GOOD_REQUESTS: Final = frozenset({*errors.RULES, *errors.ASKED, NO_TARGET, FORGOTTEN, UNPUBLISH_FORGOTTEN})
"""Rules that a call may well break that fails in any case."""
_TOLD_BYTES_MAX: Final = 2_000
INTRODUCTION: Final = "introduction"
CLEANING: Final = "cleaning up"


def told(text: str, request: Message | None = None) -> str:
    """A driver's words, for one line of any output: without what moves a cursor, without the request's secrets, and not
    endless.
    """
    return shortened(visible(text if request is None else scrubbed(text, request)), _TOLD_BYTES_MAX)


class Finder:
    """One run's."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.findings: list[Finding] = []
        self.check = ""
        """The name of the check under way."""
        self.rule: Rule | None = None
        """The one that this check asks about."""
        self.count = 0
        """Breaches so far, each of them."""
        self.met: dict[tuple[str, str], set[str]] = {}
        """The names of the checks that have met a finding, by its key."""
        self.broken: dict[str, set[str]] = {}
        """The numbers of the rules that each check has seen broken, by the check's name."""
        self._is_silent = False
        self._failing: dict[
            str, int
        ] = {}  # calls that have failed for a good request, and not succeeded since; the code

    def breach(self, breach: Breach, output: Sequence[str] = ()) -> None:
        """The book has found something. output: the driver's last lines, where they say more.

        Of all checks that meet a broken rule, the rule's own has the finding; without it, the first after the
        introduction.
        """
        if self._is_silent or self._follows(breach):
            return
        self.count += 1
        self.broken.setdefault(self.check, set()).add(breach.rule.number)
        breach = dataclasses.replace(breach, subject=told(breach.subject), found=told(breach.found))
        finding = Finding(breach, self.check, breach.rule is self.rule, self._stripped(output, breach.request))
        self.met.setdefault(finding.key, set()).add(self.check)
        known = next((number for number, one in enumerate(self.findings) if one.key == finding.key), None)
        if known is None:
            self.findings.append(finding)
        elif (finding.is_own and not self.findings[known].is_own) or self.findings[known].check == INTRODUCTION:
            self.findings[known] = msgspec.structs.replace(
                finding, output=finding.output or self.findings[known].output
            )

    def _follows(self, breach: Breach) -> bool:
        """True for what is found already: the call fails in any case, or an object is gone that a run deletes."""
        if self.check == CLEANING and breach.rule in _OF_THEIR_CHECKS:
            return True
        code = self._failing.get(breach.rpc)
        is_known = (breach.rule.number, breach.rpc) in self.met
        return (
            code is not None
            and not is_known
            and breach.rule not in _OF_GOOD_REQUESTS
            and f"code = {go_name(code)} " in breach.found
        )

    def _stripped(self, lines: Sequence[str], request: Any) -> tuple[str, ...]:
        secrets = [one for of_call in self.options.secrets.values() for one in of_call.values()]
        text = without("\n".join(lines), secrets)
        shown = scrubbed(text, request) if request is not None else text
        return tuple(told(line) for line in shown.split("\n")) if lines else ()

    @contextlib.contextmanager
    def silently(self, *, when: bool = True) -> Iterator[None]:
        """Nothing is found while the block runs. when: or all as ever."""
        before, self._is_silent = self._is_silent, self._is_silent or when
        try:
            yield
        finally:
            self._is_silent = before

    def finds(self, rule: Rule, rpc: Rpc[Any, Any], request: Any, found: str) -> None:
        """A check has found something."""
        about = named_by(rpc, request)
        self.breach(Breach(rule, rpc.name, str(about or ""), scrubbed(found, request), request=request))

    def add_output(self, rule: Rule, rpc: Rpc[Any, Any], request: Any, lines: Sequence[str]) -> None:
        """The driver's last lines, which are known only after the breach."""
        for number, one in enumerate(self.findings):
            if one.key == (rule.number, rpc.name) and not one.output:
                self.findings[number] = msgspec.structs.replace(one, output=self._stripped(lines, request))

    def has_found(self, rule: Rule, rpc: Rpc[Any, Any]) -> bool:
        """True for a rule that any check has found broken by this call."""
        return (rule.number, rpc.name) in self.met

    def has_seen(self, *rules: Rule) -> bool:
        """True where this check has seen one of these rules broken, told with whichever check."""
        return not self.broken.get(self.check, set()).isdisjoint(rule.number for rule in rules)
