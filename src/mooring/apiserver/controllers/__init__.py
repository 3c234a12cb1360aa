"""The server's own controllers: dependents follow their owners, deleted namespaces empty themselves."""
