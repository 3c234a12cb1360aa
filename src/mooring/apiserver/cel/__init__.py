"""CEL, the language of rules in schemas: read once, checked, and made into Python functions."""
