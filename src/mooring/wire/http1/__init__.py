"""HTTP/1.1 of our own, for both ends of a connection. Bytes are read and written without I/O; sockets and TLS stand
beside that.

Used by the API client and by the embedded API server (decisions 0006 and 0015).
"""
