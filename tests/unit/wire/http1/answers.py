"""Answers as bytes for tests, and everything that is none."""

from __future__ import annotations

from mooring.wire.http1.responses import INTERIM_MAX
from mooring.wire.http1.syntax import HEAD_BYTES_MAX

OK = b"HTTP/1.1 200 OK\r\n"


def cut(raw: bytes, step: int) -> list[bytes]:
    return [raw[at : at + step] for at in range(0, len(raw), step)]


def with_chunks(*chunks: bytes, trailer: bytes = b"") -> bytes:
    return (
        OK
        + b"Transfer-Encoding: chunked\r\n\r\n"
        + b"".join(b"%x\r\n%b\r\n" % (len(one), one) for one in chunks)
        + b"0\r\n%b\r\n" % trailer
    )


MALFORMED: dict[str, bytes] = {
    "another protocol": b"SSH-2.0-OpenSSH_9.6\r\n",
    "zeros": bytes(100),
    "TLS": b"\x15\x03\x03\x00\x02\x02\x28",
    "an empty line first": b"\r\n" + OK + b"\r\n",
    "HTTP/2": b"HTTP/2.0 200 OK\r\n\r\n",
    "HTTP/0.9": b"<html>",
    "no status": b"HTTP/1.1 OK\r\n\r\n",
    "a status of two digits": b"HTTP/1.1 20 OK\r\n\r\n",
    "a status of four digits": b"HTTP/1.1 2000 OK\r\n\r\n",
    "status 0": b"HTTP/1.1 000 OK\r\n\r\n",
    "two spaces": b"HTTP/1.1  200 OK\r\n\r\n",
    "a small http": b"http/1.1 200 OK\r\n\r\n",
    "a bare line feed behind the status": b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
    "a bare line feed in a header": OK + b"A: b\nC: d\r\n\r\n",
    "a bare carriage return in a header": OK + b"A: b\rC: d\r\n\r\n",
    "a line end the wrong way round": OK + b"A: b\n\rC: d\r\n\r\n",
    "a zero in a header": OK + b"A: b\0c\r\n\r\n",
    "a zero in the reason": b"HTTP/1.1 200 O\0K\r\n\r\n",
    "a space before the colon": OK + b"Content-Length : 0\r\n\r\n",
    "a folded header": OK + b"A: b\r\n c\r\n\r\n",
    "a folded first header": OK + b" A: b\r\n\r\n",
    "another protocol behind an interim answer": b"HTTP/1.1 100 Continue\r\n\r\nSSH-2.0-OpenSSH_9.6\r\n",
    "no colon": OK + b"Date\r\n\r\n",
    "a length and no colon": OK + b"Content-Length\r\n\r\n",
    "no name": OK + b": b\r\n\r\n",
    "a name of two words": OK + b"A b: c\r\n\r\n",
    "a name beyond ASCII": OK + b"\xc4: c\r\n\r\n",
    "two lengths": OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
    "a length twice": OK + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\n",
    "a list of lengths": OK + b"Content-Length: 1, 1\r\n\r\n",
    "an empty length": OK + b"Content-Length:\r\n\r\n",
    "a length with a sign": OK + b"Content-Length: +1\r\n\r\n",
    "a negative length": OK + b"Content-Length: -1\r\n\r\n",
    "a hexadecimal length": OK + b"Content-Length: 0x1\r\n\r\n",
    "a length with an underscore": OK + b"Content-Length: 1_0\r\n\r\n",
    "a length in other digits": OK + b"Content-Length: \xb2\r\n\r\n",
    "a length beyond all bounds": OK + b"Content-Length: " + b"9" * 16 + b"\r\n\r\n",
    "length and chunks": OK + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    "chunks and length": OK + b"Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
    "chunks twice": OK + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
    "chunks in chunks": OK + b"Transfer-Encoding: chunked, chunked\r\n\r\n",
    "packed chunks": OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
    "identity": OK + b"Transfer-Encoding: identity\r\n\r\n",
    "a coding with a tab": OK + b"Transfer-Encoding: \x0bchunked\r\n\r\n",
    "chunks in HTTP/1.0": b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    "two content types": OK + b"Content-Type: a/b\r\nContent-Type: c/d\r\n\r\n",
    "two content encodings": OK + b"Content-Encoding: gzip\r\nContent-Encoding: gzip\r\n\r\n",
    "another protocol agreed on": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n",
    "interim answers without end": b"HTTP/1.1 100 Continue\r\n\r\n" * (INTERIM_MAX + 1),
    "a body behind an interim answer": b"HTTP/1.1 100 Continue\r\nContent-Length: 2\r\n\r\n{}" + OK + b"\r\n",
    "a status line without end": b"HTTP/1.1 200 " + b"x" * HEAD_BYTES_MAX,
    "a head without end": OK + b"X: " + b"y" * HEAD_BYTES_MAX,
    "many headers": OK + b"A: b\r\n" * (HEAD_BYTES_MAX // 6),
    "a chunk size without a number": OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    "an empty chunk size": OK + b"Transfer-Encoding: chunked\r\n\r\n\r\n",
    "a chunk size with a sign": OK + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n",
    "a chunk size beyond all bounds": OK + b"Transfer-Encoding: chunked\r\n\r\n123456789\r\n",
    "a space before the chunk size": OK + b"Transfer-Encoding: chunked\r\n\r\n 1\r\n",
    "a bare line feed behind a chunk size": OK + b"Transfer-Encoding: chunked\r\n\r\n1\na\r\n0\r\n\r\n",
    "a chunk that is longer": OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
    "a chunk that ends in a bare line feed": OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\n0\r\n\r\n",
    "an extension without end": OK + b"Transfer-Encoding: chunked\r\n\r\n1;" + b"x" * 300,
    "a trailer without end": with_chunks(b"a", trailer=b"A: bcdefgh\r\n" * 1000),
    "a trailer line without a colon": with_chunks(b"a", trailer=b"A\r\n"),
    "a trailer line without a name": with_chunks(b"a", trailer=b": b\r\n"),
    "a trailer with a space before its colon": with_chunks(b"a", trailer=b"A : b\r\n"),
    "a trailer with a bare line feed": with_chunks(b"a", trailer=b"A: b\nC: d\r\n"),
    "a trailer line without end": with_chunks(b"a", trailer=b"A: " + b"b" * 300),
}
