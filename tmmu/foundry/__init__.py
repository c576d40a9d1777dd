"""Foundry (document 003): a session of a language model that allocates nothing once it runs.

`graph` is the static execution graph of a `session`: its buffers are made once, from a plan that was proved. `pool` is
the dynamic memory pool with generations. `context` computes how many tokens the budget holds, `kv_cache` grows with
them, `weights` reads GGUF files, and `storage` is the table of storage modes. `device` is the interface of a device,
and `cpu` is the implementation that ships.
"""
