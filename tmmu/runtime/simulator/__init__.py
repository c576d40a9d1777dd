"""Running a plan: its steps in its arenas beside the same steps in private memory, and a sanitizer for its bytes."""

from tmmu.runtime.simulator.hashed import HashKernels
from tmmu.runtime.simulator.program import Program
from tmmu.runtime.simulator.simulate import Batches, Report, simulate
from tmmu.runtime.simulator.witness import Corrupted, Corruption

__all__ = ["Batches", "Corrupted", "Corruption", "HashKernels", "Program", "Report", "simulate"]
