"""`mooring doctor`: what is wrong with the set-up of CSI drivers, in a cluster or in the files of a release, before a
user meets it.

`inventory.py` holds what was read, from `cluster.py` or `files.py`. Each check is a pure function over it, and gives
findings.
"""
