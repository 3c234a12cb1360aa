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
RENEWED_BEFORE_S: Final = 30 * 86_400.0
"""How long before its end a certificate is renewed."""


def write_private(path: Path, data: bytes) -> None:
    """A file, whole or not at all, for the owner alone. Raises OSError."""
    descriptor, new = tempfile.mkstemp(dir=path.parent)  # (made with mode 0600)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
    except BaseException:
        os.unlink(new)  # it may hold a key
        raise
