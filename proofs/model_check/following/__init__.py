"""Event logs of real runs, followed through the TLA+ modules of `tla/`.

`log` reads a log; `scans`, `pools`, `zeroing`, `quota`, `lifecycle`, `cache_growth`, `pool_generations`, `sessions`,
`regions` and `evictions` take out of it what one module is about, as lines each of which names an action of that
module; `generate` writes the TLA+ module that holds these lines; `verdict` decides from TLC's answer whether each line
was a step. Actions are defined in the modules alone:
`tla/traces/Follow*.tla` conjoins an action with what the log observed. spec: U5.19
"""
