"""A driver's node plugin as a program, as little of one as a kubelet registers:
`node_plugin.py NAME --endpoint=… --node-id=…`.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.server import serving


class NodePlugin:
    def __init__(self, name: str, node_id: str) -> None:
        self.name, self.node_id = name, node_id

    async def get_plugin_info(self, request: Any) -> csi.GetPluginInfoResponse:
        return csi.GetPluginInfoResponse(name=self.name, vendor_version="1")

    async def probe(self, request: Any) -> csi.ProbeResponse:
        return csi.ProbeResponse()

    async def node_get_info(self, request: Any) -> csi.NodeGetInfoResponse:
        return csi.NodeGetInfoResponse(node_id=self.node_id)


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("--endpoint", required=True)
    parser.add_argument("--node-id", required=True)
    words = parser.parse_args()
    async with serving(NodePlugin(words.name, words.node_id), words.endpoint, grace_s=0.0):
        await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    asyncio.run(main())
