"""The book of CSI's rules: what a driver must do, what Kubernetes makes of it when it does not, and how to mend it.

A rule has a number that never changes its meaning (`rule.py`). The rules stand beside the judges that look at calls as
they go by: one file for each part of CSI. A `Watcher` keeps what the driver said before, and gives each breach once.
All of it is pure: whoever makes or serves the calls tells the watcher of them.
"""
