#!/usr/bin/env python3
"""Adds up JUnit reports: `count_tests.py report.xml ...` prints `512 passed, 0 failed, 3 skipped`.

What failed in `tests.xml` was tried once more where there is a `tests-again.xml`: then that one says how it ended.
"""

import sys
import xml.etree.ElementTree as ElementTree


def main() -> int:
    """Exit code 1 when a test failed, or when there was none."""
    counts = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
    for path in sys.argv[1:]:
        tried_again = path.replace(".xml", "-again.xml") in sys.argv
        for suite in ElementTree.parse(path).iter("testsuite"):
            found = {name: int(suite.get(name, "0")) for name in counts}
            if tried_again:
                found["tests"] -= found.pop("failures") + found.pop("errors")
            for name, count in found.items():
                counts[name] += count
    failed = counts["failures"] + counts["errors"]
    passed = counts["tests"] - failed - counts["skipped"]
    print(f"{passed} passed, {failed} failed, {counts['skipped']} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
