"""Prove lemmas about the state machines of `tla/`, for all sizes. No verdict rests on them. spec: V4.9, V4.11"""
