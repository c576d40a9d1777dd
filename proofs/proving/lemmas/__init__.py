"""Prove lemmas once, for all inputs: those that verdicts rest on, and those about algorithms and systems.

`plan` has the first kind, which `at_use` proves when it is first needed. `planner` and `systems` have the second.
`engine` is the machinery of both, and `families` lists every file of lemmas. spec: V4.3, V4.8, V4.9
"""
