"""Unary gRPC over HTTP/2, the client's half, without I/O: bytes in, events and bytes out.

`connection.py` is what a transport uses: it hands in what it has read, carries out the events, and writes what there is to send. Nothing
here knows a socket or asyncio. Both ends of a unix socket are on one machine, so no TLS, no ALPN, no proxies, no upgrade from HTTP/1.1.

Incoming: `frame_reader.py` makes frames of bytes (syntax), `answer_headers.py` fields of header blocks, `calls.py` has the streams, and
`stream.py` says what one answer means. Outgoing: `request_headers.py` and `sending.py`.
"""
