"""The port of a folder's last start, which the next one takes again, so that its clients find the server."""

from __future__ import annotations

import socket
from pathlib import Path
from urllib.parse import urlsplit

from mooring.base.errors import ConfigError
from mooring.kube.client import kubeconfig


def last_port(path: Path) -> int:
    """The server's port in the kubeconfig that it wrote; 0 where there is none that can be read."""
    try:
        return urlsplit(kubeconfig.load(str(path), {}).server).port or 0
    except (ConfigError, ValueError):
        return 0


def is_free(port: int) -> bool:
    """Asked as the server will ask for it."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
