"""The verifier's own reading of a model, and the comparison of a plan with it."""
