"""Binds claims to volumes, protects both, and creates the claims of ephemeral volumes.

`scheduling` places pods; neither it nor the other rooms below know a driver. All read one view, and one matcher says
which volume fits which claim. Their writes are PUTs of whole objects, since other programs rely on that (decision
0012). Each part can be switched off where the real one runs. `make_binder` is the one place that joins these rooms.
"""
