"""Go's regular expressions (RE2), in a time that grows with the text alone.

google-re2 1.1 was measured in place of this room, and can't serve: of one megabyte it took `[01]*1[01]{500}x` 4.4
seconds, which no budget of a request can end; a search of a short text took 5 to 9 microseconds (here 4); it accepts
`\\C`, which Go refuses, and its refusals have other texts. Its C++ log can be silenced.
"""
