"""C from a plan: the code that runs a model in the memory that its plan states (004). spec: MC1.1"""

from tmmu.mico.code import CodeOptions
from tmmu.mico.generate import PlanNotProved, PlanVerdict, Prove, generate
from tmmu.mico.sets import ProgramSource, generate_set

__all__ = ["CodeOptions", "PlanNotProved", "PlanVerdict", "ProgramSource", "Prove", "generate", "generate_set"]
