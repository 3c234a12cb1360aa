"""The embedded API server: pure store, rules per kind, HTTP."""
