"""asyncio without ssl, in interpreters of their own: here both have been imported long ago."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.rows import each_row


def printed(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}"], capture_output=True, text=True, timeout=60, check=False
    )
    assert "" == done.stderr
    return done.stdout.strip()


IMPORTED = "from mooring.base import without_tls; without_tls.import_asyncio();"

SERVES = """
import asyncio
async def main():
    async def echo(reader, writer):
        writer.write(await reader.readline())
        writer.close()
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"hello\\n")
    print((await reader.readline()).decode(), "ssl" in sys.modules)
    server.close()
asyncio.run(main())
"""


@pytest.mark.slow
def test_asyncio_serves_as_ever_and_ssl_is_not_loaded() -> None:
    assert "hello\n False" == printed(IMPORTED + SERVES)


@pytest.mark.slow
def test_who_needs_tls_later_has_it() -> None:
    assert "True" == printed(f"{IMPORTED} import ssl; print(bool(ssl.create_default_context()))")


@pytest.mark.slow
@each_row("before", ["ssl", "asyncio"])
def test_what_was_imported_before_stays_as_it_is(before: str) -> None:
    assert "True True" == printed(
        f"import {before}; {IMPORTED} import asyncio, ssl; print(asyncio.sslproto.ssl is ssl, ssl is "
        "sys.modules['ssl'])"
    )
