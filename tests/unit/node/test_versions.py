"""Which version of CSI a plugin and the node have in common."""

from __future__ import annotations

import pytest

from mooring.node.plugins.decide import Version, highest_supported
from tests.support.rows import each_row


@each_row(
    ("versions", "highest"),
    [
        pytest.param([], None, id="REG-8-none"),
        pytest.param(["0.3.0"], None, id="REG-8-old"),
        pytest.param(["4.9.12", "2.0.1"], None, id="REG-8-new"),
        pytest.param(["var", "boo"], None, id="REG-8-garbage"),
        pytest.param(["v1.2.3", "boo", "v0.3.0", "2.0.1"], (1, 2, 3), id="REG-9"),
        pytest.param(["0.2.0", "v1.0.0"], (1, 0, 0), id="REG-9-one"),
        pytest.param(["1.9.0", "1.10.0"], (1, 10, 0), id="numbers-not-text"),
        pytest.param(["1.0.0-rc1"], (1, 0, 0), id="pre-release"),
        pytest.param(["1"], (1,), id="major-alone"),
        pytest.param(["", " 1.0.0", "1..0", "1.0.", "-1.0"], None, id="malformed"),
    ],
)
def test_the_highest_common_version_counts(versions: list[str], highest: Version | None) -> None:
    assert highest == highest_supported(versions)
