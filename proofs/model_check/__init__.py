"""Running TLC over the TLA+ models of `tla/`, and judging its results.

`manifest` lists what there is and how each run must end; `config` is the file that TLC reads for it; `java` and
`tlatools` find what it runs on; `tlc` runs it, `messages` reads what it prints, `judge` compares that with the
manifest; `command` is the command `check-models`. TLC 2.18 has several ways to look green while nothing was checked.
Each is named, as a trap, in the module that closes it, and has a test.
"""
