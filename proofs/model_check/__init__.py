"""Run TLC over the TLA+ models of `tla/`, and judge its results.

`manifest` lists the models and how each run must end. `config` is the file that TLC reads for a run; `java` and
`tlatools` find the programs. `tlc` runs it, `messages` reads its output, and `judge` compares that with the manifest.
`command` is the command `check-models`. TLC 2.18 has several ways to look green while nothing was checked. Each is
named, as a trap, in the module that closes it, and has a test.
"""
