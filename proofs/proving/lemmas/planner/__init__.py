"""Prove lemmas about the algorithms of the planner and the runtime. No verdict rests on them.

A test compares each with its code. spec: V4.9, V4.11
"""
