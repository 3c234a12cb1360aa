"""OpenTelemetry traces: one for each volume's way through all programs, with spans for decisions, writes and calls of the driver.

    tracing = Tracing(spans, clock, ORDER.get())
    work = traced(make, runtime, driver, tracing)

The controllers know nothing of it: it looks in from the ports, as the flight recorder does. `spans.py` alone knows OpenTelemetry, which an
extra installs, and nothing here is imported as long as traces are off.
"""
