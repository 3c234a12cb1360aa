"""Writes objects straight into etcd, before the API server starts: a cluster of any age and size within a minute.

The API server stores built-in kinds as protobuf and reads JSON too; what it writes itself from then on is protobuf.
"""

from __future__ import annotations

import base64
import http.client
import json
from urllib.parse import urlsplit

from bench.scale.lived import Size, pages_told

FLAGS = ("--quota-backend-bytes=17179869184", "--max-txn-ops=2000", "--max-request-bytes=4194304")
_PAGE_BYTES = 2 << 20


def fill(url: str, size: Size) -> None:
    """Puts every object of the cluster, some hundred with each request. Tells how far it is. Raises AssertionError when
    etcd refuses.
    """
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    for page in pages_told(size, _PAGE_BYTES, "etcd"):
        puts = [{"requestPut": {"key": _base64(key), "value": _base64(value)}} for key, value in page]
        connection.request("POST", "/v3/kv/txn", json.dumps({"success": puts}), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == 200, f"etcd answers {answer.status}: {body[:300]!r}"
    connection.close()


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
