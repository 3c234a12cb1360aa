"""Turns claims into volumes: CreateVolume, DeleteVolume, and the PersistentVolumes that stand for them."""
