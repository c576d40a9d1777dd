"""What is proved once, for all inputs, in two parts: what verdicts rest on, and what is about algorithms and systems.

`plan` is the first part, which `at_use` proves when it is first needed; `planner` and `systems` are the second, and
`engine` is what all of them are made of. `families` lists every file of lemmas. spec: V4.3, V4.8, V4.9
"""
