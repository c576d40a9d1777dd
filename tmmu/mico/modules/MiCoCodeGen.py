"""MiCo's module of this name (004). spec: MC8.9"""

from tmmu.tasks.mico_codegen import MiCoCodeGen

__all__ = ["MiCoCodeGen"]
