"""A CSI call by hand: its request from words or a document, its answer and its errors for people."""
