"""Caches of objects, kept current by watches."""
