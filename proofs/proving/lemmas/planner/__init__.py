"""Lemmas about the algorithms of the planner and the runtime, each held against its code by a test. No verdict rests on
them. spec: V4.9, V4.11
"""
