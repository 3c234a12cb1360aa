"""Commands and flags: one file per executable; with `dev` and `testing`, the only place that builds things.

`csi-attacher` and its kin take the flags of the Go programs of these names; `mooring` is the command for people. All
programs of controllers have one life: diagnostics, election, work, an orderly end. A flag stands on the options of the
room that works with it, with its help and its default; the program's table inherits these options and adds its own, and
`Setup.options` makes the record.
"""
