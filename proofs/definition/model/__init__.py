"""Compare a plan with a model: each step and each tensor must be the model's. spec: V3.1 to V3.3"""
