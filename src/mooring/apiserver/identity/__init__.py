"""Who the server is and who may come in: certificates, tokens, service accounts."""
