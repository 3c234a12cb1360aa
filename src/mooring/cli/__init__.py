"""Commands and flags: one file per executable; with `dev`, the only place that builds things."""
