"""The bottom: clock, randomness, log, metrics, errors, units, flags. No Kubernetes, no CSI.

This is the only room that reads a wall clock, sleeps or draws random numbers; all others get a `Clock` and a `Random`.
A `Fence` stops the writes and calls of work that may no longer act: the clients of API server and driver ask it just
before they send. The log is klog's text form or JSON, on the standard library's logging. Flags are read as Go reads
them. The small HTTP server for metrics and health is here, too (decision 0003).
"""
