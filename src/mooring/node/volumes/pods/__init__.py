"""The pods of a node: what they want, and what is said of them."""
