"""Writes objects straight into etcd, before the API server starts: a cluster of any age and size within a minute.

The API server stores built-in kinds as protobuf and reads JSON too; what it writes itself from then on is protobuf.
"""

from __future__ import annotations

import base64
import http.client
import json
import sys
import time
from urllib.parse import urlsplit

from bench.scale.lived import Size, pages

FLAGS = ("--quota-backend-bytes=17179869184", "--max-txn-ops=2000", "--max-request-bytes=4194304")
_PAGE_BYTES = 2 << 20


def fill(url: str, size: Size) -> None:
    """Puts every object of the cluster, some hundred with each request. Tells how far it is. Raises AssertionError when etcd refuses."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    began = told = time.monotonic()
    done = taken = 0
    for page in pages(size, _PAGE_BYTES):
        puts = [{"requestPut": {"key": _base64(key), "value": _base64(value)}} for key, value in page]
        connection.request("POST", "/v3/kv/txn", json.dumps({"success": puts}), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == 200, f"etcd answers {answer.status}: {body[:300]!r}"
        done, taken = done + len(page), taken + sum(len(value) for _, value in page)
        if time.monotonic() - told > 5:
            told = time.monotonic()
            print(f"{done} of {size.objects} objects are in etcd, {taken >> 20} MiB", file=sys.stderr, flush=True)
    assert done == size.objects, f"{done} objects were stored, of {size.objects}"
    print(f"{done} objects, {taken >> 20} MiB, in etcd after {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    connection.close()


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
