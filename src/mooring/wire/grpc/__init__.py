"""Unary gRPC over HTTP/2 on a unix socket, both ends.

Four files know sockets: `link.py` and `dial.py` for clients, `server.py` and `socket_file.py` for servers. All others
do no I/O: bytes in, events and bytes out. Both ends are on one machine, so there is no TLS, no ALPN, no proxy, and no
upgrade from HTTP/1.1.

The client's half: `link.py` hands the bytes that it has read to `connection.py`, carries out the events, and writes the
bytes to send. `frame_reader.py` makes frames of incoming bytes, `answer_headers.py` makes fields of header blocks,
`calls.py` has the streams, and `stream.py` interprets one answer. `request_headers.py` and `sending.py` make the
outgoing bytes. `serving/` is the server's half.
"""
