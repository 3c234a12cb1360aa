"""The driver in docs/driver.md does what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mooring.csi.codes import Code
from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.capabilities import Capability
from tests.unit.driver.calls import a_creation, a_deletion, a_publication, created, refused

PAGE = Path(__file__).parents[3] / "docs" / "driver.md"


async def test_the_example_works(tmp_path: Path) -> None:
    code = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert code is not None
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(code[1], str(PAGE), "exec"), names)
    shelf = names["Shelf"](tmp_path)

    answer = await shelf.controller_get_capabilities(csi.ControllerGetCapabilitiesRequest())
    assert [Capability.CREATE_DELETE_VOLUME] == [one.rpc.type for one in answer.capabilities]
    assert "pvc1" == await created(shelf, "pvc1") == await created(shelf, "pvc1")
    assert (tmp_path / "pvc1").is_dir()
    await refused(shelf.create_volume(a_creation("../pvc1")), Code.INVALID_ARGUMENT, "no name for a folder")
    await refused(shelf.controller_publish_volume(a_publication("pvc1")), Code.UNIMPLEMENTED)
    await shelf.delete_volume(a_deletion("pvc1"))
    await shelf.delete_volume(a_deletion("pvc1"))
    assert not (tmp_path / "pvc1").exists()
