"""The server's half of unary gRPC over HTTP/2, without I/O: bytes in, calls and bytes out.

For registrars, whose client is the kubelet, and for drivers of the SDK, whose clients are kubelets and sidecars.
Frames, header blocks, settings and what is sent are those of the client's half. `connection.py` is what a transport
uses, `calls.py` has the streams, `limits.py` how many, `request.py` says what one request is, and `call_headers.py`
reads its fields.

Where grpc-go's server and grpcio's differ, this one does as grpc-go's: the kubelet's library.
"""
