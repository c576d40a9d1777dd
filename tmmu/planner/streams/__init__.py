"""Streams: steps that may overlap in time, and the storages that may share bytes nevertheless.

`steps` computes which steps happen before which, from streams and direct waits. `storages` derives the partial order of
storages: one is before another if every access of the first happens before every access of the second. `antichain`
finds the fewest slots, or the most bytes, that such an order needs, exactly, with the antichain that proves it.
`chains` assigns slots to more storages than that, and states a gap. Everything here is a pure function of integers.
spec: X6.1, X6.2
"""
