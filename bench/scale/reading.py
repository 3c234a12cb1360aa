"""What the API server itself takes for the lists that a start asks for: they are read, and thrown away."""

from __future__ import annotations

import http.client
import re
import ssl
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote, urlsplit

from tests.support.control_plane import ControlPlane

PATHS = (
    "/api/v1/pods",
    "/api/v1/persistentvolumeclaims",
    "/api/v1/persistentvolumes",
    "/api/v1/nodes",
    "/apis/storage.k8s.io/v1/volumeattachments",
    "/apis/storage.k8s.io/v1/csinodes",
    "/apis/snapshot.storage.k8s.io/v1/volumesnapshots",
    "/apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents",
)
_LIMIT = 500
_HEAD_BYTES = 1000
_CONTINUE = re.compile(rb'"continue": ?"([^"]+)"')


def lists_alone(plane: ControlPlane) -> str:
    """Reads each kind once, all kinds at a time, each page by page. Says what that took."""
    began = time.monotonic()
    with ThreadPoolExecutor(len(PATHS)) as threads:
        read = sum(threads.map(lambda path: _read(plane, path), PATHS))
    took_s = time.monotonic() - began
    return (
        f"All lists once, in pages of {_LIMIT}, by readers that keep nothing: {took_s:.1f} s, {read / 2**20:.1f} MiB."
    )


def _read(plane: ControlPlane, path: str) -> int:
    """The bytes of all pages."""
    at, context = urlsplit(plane.server), ssl.create_default_context(cafile=plane.ca_file)
    connection = http.client.HTTPSConnection(at.hostname or "", at.port, context=context, timeout=60)
    headers, read, token = {"Authorization": f"Bearer {plane.token}", "Accept": "application/json"}, 0, ""
    while True:
        connection.request("GET", f"{path}?limit={_LIMIT}&continue={quote(token)}", headers=headers)
        answer = connection.getresponse()
        page = answer.read()
        assert answer.status == 200, page[:_HEAD_BYTES]
        read += len(page)
        found = _CONTINUE.search(page, 0, _HEAD_BYTES)
        if found is None:
            connection.close()
            return read
        token = found[1].decode()
