"""Requests that nobody means well, against the embedded API server: seeded, with a meter as the judge.

A turn of the loop that takes too long, a peak of memory out of proportion to the request, a request without an answer,
or an error of the server's own is a finding. Two minutes of it are a long test; for hours: `make fuzz`. A finding is
told with its seed:
`python -m tests.fuzz --seed N`.
"""
