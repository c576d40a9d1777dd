"""C from a plan: the code that runs a model in the memory that its plan states (004). spec: MC1.1"""

from tmmu.mico.code import CodeOptions
from tmmu.mico.generate import PlanNotProved, PlanVerdict, Prove, generate

__all__ = ["CodeOptions", "PlanNotProved", "PlanVerdict", "Prove", "generate"]
