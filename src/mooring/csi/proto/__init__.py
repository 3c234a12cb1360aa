"""CSI and plugin registration: declarations (own comments) and the code generated from them."""
