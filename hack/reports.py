"""Reads JUnit reports: which tests to try once more, how each failure ended, and how many tests there were.

python hack/reports.py failed REPORT    the failed tests, one node id a line, for another run of them alone
python hack/reports.py skipped REPORT   the tests that were not run, in the same way
python hack/reports.py told FOLDER      what passed in a second try; of each test that failed twice, its last lines and
                                        the command that repeats it
python hack/reports.py count FOLDER     `512 passed, 0 failed, 3 skipped`; exit 1 where a test failed, or none ran

A step NAME of .ci/run leaves NAME.xml, and NAME-again.xml of a second try of what had failed. NAME-again.command holds
the words of the second try.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).parent.parent
ROOTS = (PROJECT, PROJECT.parent / "shared" / "kit")
LINES_MAX = 30


def failures(report: Path) -> dict[str, str]:
    """Return the message of each test that failed, or that broke in collection, set-up or end, by node id."""
    found: dict[str, str] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        for bad in (*case.iter("failure"), *case.iter("error")):
            test = node_id(case.get("classname", ""), case.get("name", ""))
            found[test] = found.get(test, "") + (bad.text or bad.get("message", ""))
    return found


def skipped(report: Path) -> list[str]:
    """Return the node ids of the tests that were not run."""
    return [
        node_id(case.get("classname", ""), case.get("name", ""))
        for case in ElementTree.parse(report).iter("testcase")
        if case.find("skipped") is not None
    ]


def node_id(class_name: str, name: str) -> str:
    """Return pytest's id of a test case.

    class_name: folders, file and classes with dots between them: what exists as a file ends the path. Where a module
    could not be collected it is empty, and name is the module.
    """
    for words, rest in ((class_name.split("."), [name]), (name.split("."), [])):
        for root in ROOTS:
            for end in range(len(words), 0, -1):
                file = root.joinpath(*words[:end]).with_suffix(".py")
                if file.is_file():
                    path = file.relative_to(root) if root == PROJECT else file
                    return "::".join([str(path), *words[end:], *rest])
    return f"{class_name}::{name}".strip(":")


def tries(folder: Path) -> Iterator[tuple[Path, Path]]:
    """Yield the paths of each step's report and of its second try's; one of the two may not exist."""
    for stem in sorted({report.stem.removesuffix("-again") for report in folder.glob("*.xml")}):
        yield folder / f"{stem}.xml", folder / f"{stem}-again.xml"


def told(folder: Path) -> None:
    for first, second in tries(folder):
        before = failures(first) if first.exists() else {}
        still = failures(second) if second.exists() else before
        for test in before.keys() - still.keys():
            print(f"failed once, passed then: {test}")
        for test, message in still.items():
            print(f"\n==== FAILED {test}", *message.splitlines()[-LINES_MAX:], sep="\n")
        command = second.with_suffix(".command")
        if still and command.exists():
            print(f"\nto repeat: {command.read_text()}")


def count(folder: Path) -> int:
    """Print the sum in the form that test runners end with; a test counts as it ended in its last try.

    What one user could not test and another one did counts once.
    """
    ends: dict[tuple[str, str], str] = {}
    for step in tries(folder):
        for report in filter(Path.exists, step):
            for case in ElementTree.parse(report).iter("testcase"):
                bad = case.find("failure") is not None or case.find("error") is not None
                end = "failed" if bad else "skipped" if case.find("skipped") is not None else "passed"
                test = node_id(case.get("classname", ""), case.get("name", ""))
                of = step[0].stem if step[0].stem.startswith("kit") else "own"  # the kit's rows test several programs
                if end != "skipped" or (of, test) not in ends:
                    ends[of, test] = end
    sums = Counter(ends.values())
    print(f"{sums['passed']} passed, {sums['failed']} failed, {sums['skipped']} skipped")
    return 1 if sums["failed"] or not sums["passed"] else 0


def main() -> int:
    match sys.argv[1:]:
        case ["failed", report]:
            for test in failures(Path(report)) if Path(report).exists() else ():
                print(test)
        case ["skipped", report]:
            print(*skipped(Path(report)), sep="\n")
        case ["told", folder]:
            told(Path(folder))
        case ["count", folder]:
            return count(Path(folder))
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
