"""Plan several programs for one memory: shared tensors at one place, everything else overlapped.

`shares` decides which tensors are one shared tensor. `programs` finds entries and exits. `joint` makes one allocation
problem of all programs, which run one after the other on one line of steps, with the state of the set live throughout.
`plan` solves it with the planner's own layouts and gives each program its part of the solution.
"""
