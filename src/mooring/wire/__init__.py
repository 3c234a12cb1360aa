"""The bytes of protocols: HTTP/1.1, HTTP/2 and gRPC, for both ends of a connection. It knows neither Kubernetes nor CSI."""
