"""The bytes of protocols: HTTP/1.1, HTTP/2 and gRPC, for both ends of a connection. It knows neither Kubernetes nor
CSI.

In both rooms below bytes are read and written without I/O, and sockets stand beside that. `grpc` is for drivers,
registrars and their callers, on a unix socket (decisions 0016 and 0020). `http1` is for the client of the API server
and for the embedded server, also through proxies and with TLS at either end (decisions 0006 and 0015).
"""
