"""Validate event logs of real runs against the TLA+ modules of `tla/` (trace validation).

`log` reads a log. `scans`, `pools`, `zeroing`, `quota`, `lifecycle`, `cache_growth`, `pool_generations`, `sessions`,
`regions` and `evictions` each extract the part that one module is about, as lines that name an action of that module.
`generate` writes the TLA+ module that holds these lines. `verdict` decides from TLC's answer whether each line was a
step. Only the modules define actions: `tla/traces/Follow*.tla` conjoins an action with the observations of the log.
spec: U5.19
"""
