"""Deletes the volumes of released PersistentVolumes, and keeps the finalizer that holds them until then."""
