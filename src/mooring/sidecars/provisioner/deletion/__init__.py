"""Deletes the volumes of released PersistentVolumes, and keeps the finalizer that holds them until then.

A new volume whose PersistentVolume was refused is not deleted here but in `claims/provision.py`.
"""
