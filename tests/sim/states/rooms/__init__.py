"""One module for each controller."""
