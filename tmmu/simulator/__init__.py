"""Run a plan: its steps in its arenas beside the same steps in private memory, with a sanitizer for its bytes."""

from tmmu.simulator.hashed import HashKernels
from tmmu.simulator.program import PlanProgram
from tmmu.simulator.simulate import Batches, SimulationReport, simulate
from tmmu.simulator.witness import Corrupted, Corruption

__all__ = ["Batches", "Corrupted", "Corruption", "HashKernels", "PlanProgram", "SimulationReport", "simulate"]
