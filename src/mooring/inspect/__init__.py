"""Reading a cluster for people. Nothing here decides what controllers do, and nothing is changed unasked."""
