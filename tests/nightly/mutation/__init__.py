"""How much the tests notice: single places of the source are changed, and a test has to fail for each.

`python -m tests.nightly.mutation` (or `make mutation`) runs it; `README.md` beside this file has method and figures.
"""
