"""Go's regular expressions (RE2), in a time that grows with the text alone."""
