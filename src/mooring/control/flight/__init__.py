"""The flight recorder: what came in lately, in a bounded ring, written as one file that `mooring replay` runs again."""
