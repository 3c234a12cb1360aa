"""HTTP: bytes of clients into requests, requests into answers, watches as streams."""
