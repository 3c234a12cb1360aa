"""The server's identity and its users: certificates, tokens, service accounts."""
