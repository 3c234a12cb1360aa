"""A whole control plane in a test, as a pytest fixture: `def test_x(mooring_cluster)`. Nothing here is loaded before a test asks for it."""
