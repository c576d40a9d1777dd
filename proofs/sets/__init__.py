"""Check plan sets (PS1) without the planner: several programs that run one at a time, in any order, in one memory.

`agreed` reads which tensors are shared off names if no manifest states it. `state` lists what must survive the calls.
`violations` checks that all programs leave it alone and hand it on, `calls` runs sequences of calls byte by byte, and
`rows` has solvers prove both of every sequence.
"""
