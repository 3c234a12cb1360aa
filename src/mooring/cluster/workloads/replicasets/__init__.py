"""Keeps as many pods as a ReplicaSet wishes for."""
