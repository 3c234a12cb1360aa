"""Binds claims to volumes, protects both, and creates the claims of ephemeral volumes."""
