"""Everything in one process."""
