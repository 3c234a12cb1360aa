"""The files of a server's identity, in one folder."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Final

CA: Final = "ca.crt"
CA_KEY: Final = "ca.key"
CERTIFICATE: Final = "server.crt"
KEY: Final = "server.key"
ACCOUNTS_KEY: Final = "accounts.key"
"""It signs the tokens of service accounts."""
TOKEN: Final = "token"


def write_private(path: Path, data: bytes) -> None:
    """A file, whole or not at all, for the owner alone."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:  # (made with mode 0600)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    Path(file.name).replace(path)
