"""Provisions volumes for claims."""
