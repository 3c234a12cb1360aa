"""OpenTelemetry traces: one for each volume's way through all programs, with spans for decisions, writes and calls of
the driver.

    tracing = Tracing(spans, clock)
    work = traced(make, runtime, driver, tracing)

The controllers know of `Runtime.steps` alone; the rest looks in from the ports. `spans.py` alone knows
OpenTelemetry, which an extra installs, and nothing here is imported as long as traces are off.
"""
