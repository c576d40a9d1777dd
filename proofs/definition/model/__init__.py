"""When a plan is the plan of a model: each step and each tensor is the model's. spec: V3.1 to V3.3"""
