"""The programs that run beside a CSI driver, in place of the Go sidecars.

Each decides in a pure function and carries out what was decided; none knows another. The names of files are the same in
each: `view` (the objects that it reads, their indexes, the fields that caches keep), `decide` (and `decide_after`, for
what follows from an answer), `reasons` (in a user's words), `reconcile` (carries out, in order), `requests` (CSI
messages from API objects), `controller` (the queues, and which change wakes which key). A small room has fewer.
"""
