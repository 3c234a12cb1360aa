"""The demo: one volume's life, from claim to deletion, on two nodes."""
