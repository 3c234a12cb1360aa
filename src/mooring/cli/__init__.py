"""Commands and flags: one file per executable; with `dev` and `testing`, the only place that builds things."""
