"""Tells whether a CSI driver keeps the rules of the book (`csi/book/`)."""
