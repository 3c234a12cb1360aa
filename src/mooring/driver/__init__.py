"""An SDK for writing CSI drivers.

A driver is a Python class, and the methods that it overrides are its capabilities. The SDK checks requests before they
reach the class, and answers before they leave; calls for one volume never overlap. The room knows `csi` and `mounts`,
not `kube`. Helpers for authors: work that blocks, calls that are repeated, records on the disk.
"""
