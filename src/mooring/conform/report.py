"""A report as text for people, JSON, JUnit's XML and TAP."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, Final
from xml.etree import ElementTree

from mooring.conform.book.rule import verdict
from mooring.conform.finding import MADE_TWICE, Finding
from mooring.conform.runner import End, Report, Result

_WIDTH: Final = 100
_LEFT_MAX: Final = 10
"""Lines of what could not be deleted; JSON has all."""
_BY_HAND: Final = (
    "A call by hand goes to the driver at $CSI_ENDPOINT, since the driver of this run has ended: start it, and export "
    "CSI_ENDPOINT=unix:///path/of.sock."
)


def line(result: Result) -> str:
    """One line for a check that has ended."""
    said = ", ".join(result.rules) or result.note
    note = f"  {said}" if said else ""
    return f"{result.end.value:<8}{result.check.name}{note}"


def as_text(report: Report, address: str) -> str:
    return "\n".join(_text(report, address)) + "\n"


def _text(report: Report, address: str) -> Iterator[str]:
    if report.findings:
        yield ""
    for _, findings in itertools.groupby(
        sorted(report.findings, key=lambda one: one.key), lambda one: one.breach.rule.number
    ):
        yield from _of_a_rule(list(findings), address)
    if not address and any(one.by_hand(address) for one in report.findings):
        yield from (*_wrapped("", _BY_HAND), "")
    yield from (f"not deleted: {left}" for left in report.left[:_LEFT_MAX])
    if len(report.left) > _LEFT_MAX:
        yield f"not deleted: {len(report.left) - _LEFT_MAX} more"
    yield summary(report)


def _of_a_rule(findings: Sequence[Finding], address: str) -> Iterator[str]:
    rule = findings[0].breach.rule
    yield from _wrapped("Warning: " if rule.is_warning else "", f"{rule.number} {rule.asks} {rule.source}")
    if rule.drivers:
        yield from _wrapped("  A warning: ", rule.drivers)
    yield from _wrapped("  Kubernetes: ", rule.kubernetes)
    yield from _wrapped("  Mend: ", rule.mend)
    for finding in findings:
        yield from _wrapped("  - ", finding.breach.what)
        yield f"    Check: {_met_by(finding)}"
        if by_hand := finding.by_hand(address):
            yield f"    {_by_hand(finding)}: {by_hand}"
        if finding.output:
            yield "    The driver's last lines:"
            yield from (f"      | {line}" for line in finding.output)
    yield ""


def _met_by(finding: Finding) -> str:
    more = f" (and {finding.others} {'check' if finding.others == 1 else 'checks'} more)" if finding.others else ""
    return f"{finding.check}{more}"


def _by_hand(finding: Finding) -> str:
    return "By hand, twice" if finding.breach.rule in MADE_TWICE else "By hand"


def summary(report: Report) -> str:
    counts = ", ".join(f"{report.count(end)} {end.value}" for end in End if report.count(end))
    broke = verdict({one.breach.rule for one in report.findings})
    left = (
        f"; {len(report.left)} {'thing' if len(report.left) == 1 else 'things'} could not be deleted"
        if report.left
        else ""
    )
    cut = "" if report.is_whole else f"; {_cut(report)}"
    return f"{report.driver or 'the driver'}: {counts or 'no check was made'}; it {broke}{left}{cut}"


def _cut(report: Report) -> str:
    count = report.unmade
    missing = f": {count} {'check was' if count == 1 else 'checks were'} not made" if count else ""
    return f"{report.obstacle or 'the run did not come to its end'}{missing}"


def _wrapped(head: str, text: str) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent=head, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )


def as_values(report: Report, address: str) -> dict[str, Any]:
    checks = [
        {
            "name": one.check.name,
            "rule": one.check.rule.number,
            "result": one.end.value,
            "broken": list(one.rules),
            "seconds": round(one.seconds, 3),
            "note": one.note,
        }
        for one in report.results
    ]
    findings = [_values(one, address) for one in sorted(report.findings, key=lambda one: one.key)]
    return {
        "driver": report.driver,
        "complete": report.is_whole,
        "checks": checks,
        "findings": findings,
        "notDeleted": report.left,
    }


def _values(finding: Finding, address: str) -> dict[str, Any]:
    breach = finding.breach
    return {
        "rule": breach.rule.number,
        "level": "warning" if breach.rule.is_warning else "error",
        "rpc": breach.rpc,
        "subject": breach.subject,
        "found": breach.found,
        "check": finding.check,
        "otherChecks": finding.others,
        "demand": breach.rule.asks,
        "source": breach.rule.source,
        "kubernetes": breach.rule.kubernetes,
        "mend": breach.rule.mend,
        "byHand": finding.by_hand(address),
        "byHandTwice": finding.breach.rule in MADE_TWICE,
        "driverOutput": list(finding.output),
    }


def as_junit(report: Report, address: str) -> str:
    outside = _outside_checks(report)
    suite = ElementTree.Element(
        "testsuite",
        name=f"mooring conform: {report.driver}",
        tests=str(len(report.results) + len(outside) + (not report.is_whole)),
        failures=str(report.count(End.BROKEN) + sum(not one.breach.rule.is_warning for one in outside)),
        errors=str(report.count(End.STOPPED) + (not report.is_whole)),
        skipped=str(report.count(End.SKIPPED)),
        time=f"{sum(one.seconds for one in report.results):.3f}",
    )
    for one in report.results:
        case = ElementTree.SubElement(
            suite, "testcase", classname=one.check.rule.number, name=one.check.name, time=f"{one.seconds:.3f}"
        )
        if one.end is End.SKIPPED:
            ElementTree.SubElement(case, "skipped", message=one.note)
        elif one.end is End.STOPPED:
            ElementTree.SubElement(case, "error", message=one.note)
        elif one.end is End.BROKEN:
            failure = ElementTree.SubElement(
                case, "failure", message="; ".join(_told(report, one)), type=", ".join(one.rules)
            )
            failure.text = "\n".join(text for finding in one.findings for text in _advice(finding, address))
        elif one.end is End.WARNED:
            told = [text for finding in one.findings for text in _advice(finding, address)] or _told(report, one)
            ElementTree.SubElement(case, "system-out").text = "\n".join(told)
    for finding in outside:
        number = finding.breach.rule.number
        case = ElementTree.SubElement(suite, "testcase", classname=number, name=finding.check, time="0.000")
        if finding.breach.rule.is_warning:
            said = ElementTree.SubElement(case, "system-out")
        else:
            said = ElementTree.SubElement(case, "failure", message=finding.breach.line, type=number)
        said.text = "\n".join(_advice(finding, address))
    if not report.is_whole:
        case = ElementTree.SubElement(suite, "testcase", classname="conform", name="the run", time="0.000")
        ElementTree.SubElement(case, "error", message=_cut(report))
    ElementTree.indent(suite)
    return f"<?xml version='1.0' encoding='utf-8'?>\n{ElementTree.tostring(suite, encoding='unicode')}\n"


def _advice(finding: Finding, address: str) -> Iterator[str]:
    rule = finding.breach.rule
    yield from (finding.breach.line, f"Rule: {rule.asks} {rule.source}", *finding.breach.advice)
    if by_hand := finding.by_hand(address):
        yield f"{_by_hand(finding)}: {by_hand}"
    if finding.output:
        yield from ("The driver's last lines:", *finding.output)


def as_tap(report: Report, _address: str) -> str:
    return "\n".join(_tap(report)) + "\n"


def _tap(report: Report) -> Iterator[str]:
    yield "TAP version 13"
    outside = _outside_checks(report)
    yield f"1..{len(report.results) + len(outside) + report.unmade}"
    for number, one in enumerate(report.results, 1):
        ok = "ok" if one.end in (End.KEPT, End.WARNED, End.SKIPPED) else "not ok"
        skip = f" # SKIP {one.note}" if one.end is End.SKIPPED else ""
        yield f"{ok} {number} - {one.check.name}{skip}"
        if one.end not in (End.KEPT, End.SKIPPED):
            yield from (f"# {text}" for text in _told(report, one))
    for number, finding in enumerate(outside, len(report.results) + 1):
        yield f"{'ok' if finding.breach.rule.is_warning else 'not ok'} {number} - {finding.check}"
        yield f"# {finding.breach.line}"
    if not report.is_whole:
        yield f"Bail out! {_cut(report)}"


def _outside_checks(report: Report) -> list[Finding]:
    """Those of the introduction and of the cleaning up, which no check has met."""
    names = {one.check.name for one in report.results}
    return sorted((one for one in report.findings if one.check not in names), key=lambda one: one.key)


def _told(report: Report, result: Result) -> list[str]:
    """What a check says that did not end well. A rule that is told with another check is named with that check."""
    told = [finding.breach.line for finding in result.findings]
    here = {finding.breach.rule.number for finding in result.findings}
    for number in result.rules:
        if number not in here:
            where = next((one.check for one in report.findings if one.breach.rule.number == number), "")
            told.append(f"{number}, see {where}")
    return told or [result.note]
