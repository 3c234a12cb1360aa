"""Pods move on a real control plane while `mooring attachdetach` and the attacher are killed:
`python -m tests.attachdetach_load`.
"""
