"""Names the tests that failed in a JUnit report, for another run of them: python hack/failed_tests.py FOLDER REPORT

FOLDER: from where the report's class names count, as in binding.test_claims. Prints one FOLDER/binding/test_claims.py::test_name a line.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree


def main() -> None:
    folder, report = sys.argv[1:]
    for case in ElementTree.parse(report).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            print(f"{folder}/{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}")


if __name__ == "__main__":
    main()
