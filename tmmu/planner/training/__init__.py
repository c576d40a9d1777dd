"""Training: modes and presets (`modes`), and the backward half of a model that has none (`expand`). M1, M2."""
