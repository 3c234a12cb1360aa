"""Binds claims to PersistentVolumes."""
