"""The volumes of a node's pods: attached, staged, published; and all the way back."""
