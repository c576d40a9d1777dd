"""The calls of a plan set by onnxruntime alone: whole models, whose outputs are fed back as inputs.

Nothing of a plan is used but the names of the tensors that are state. Therefore a difference beyond rounding is one of
the programs, of their sharing, or of the kernels. spec: SIM9.6
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import onnxruntime

from tmmu.plans.sets import Agreement
from tmmu.simulator.elements import Array

TOLERANCE = 1e-3
"""The largest accepted difference of floats, as a part of the largest magnitude of the tensor."""


@dataclass(frozen=True)
class Difference:
    """How far a value of a call is from onnxruntime's: the tensor, and the difference as a part of its magnitude."""

    tensor: str
    relative: float

    @property
    def is_rounding(self) -> bool:
        """Whether it is no more than rounding explains."""
        return self.relative <= TOLERANCE


@dataclass
class SessionCalls:
    """The models of a set in sessions of onnxruntime, and the state that their calls left.

    Raises onnxruntime's exceptions for a model that it cannot load.
    """

    agreement: Agreement
    models: Mapping[str, str]
    kept: dict[str, Array] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        self.sessions = {
            name: onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
            for name, path in self.models.items()
        }

    def call(self, name: str, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs of a program, by name. `inputs` are the caller's; those that are state are replaced."""
        session, fed = self.sessions[name], dict(inputs)
        uses = [(shared.name, shared.uses[name]) for shared in self.agreement.shared if name in shared.uses]
        for kept, use in uses:
            if use.entry in fed and kept in self.kept:
                fed[use.entry] = self.kept[kept].reshape(fed[use.entry].shape)
        names = [output.name for output in session.get_outputs()]
        outputs = dict(zip(names, session.run(names, fed), strict=True))
        for kept, use in uses:
            if use.exit in outputs:
                self.kept[kept] = outputs[use.exit]
            elif use.entry in fed:
                self.kept[kept] = fed[use.entry]
        return outputs


def compare(ours: Mapping[str, Array], theirs: Mapping[str, Array]) -> Difference | None:
    """Return the largest difference of the outputs that both have; None if there is none that both have."""
    found: Difference | None = None
    for name in ours.keys() & theirs.keys():
        difference = Difference(name, _relative(np.asarray(ours[name]), np.asarray(theirs[name])))
        if found is None or (difference.relative, name) > (found.relative, found.tensor):
            found = difference
    return found


def _relative(ours: Array, theirs: Array) -> float:
    """Return the largest difference, as a part of the largest magnitude. Anything but floats differs by 0 or more."""
    if ours.shape != theirs.shape:
        return float("inf")
    if ours.dtype.kind != "f" and ours.dtype.name != "bfloat16":
        return 0.0 if np.array_equal(ours, theirs) else float("inf")
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    if np.array_equal(a, b, equal_nan=True):
        return 0.0
    finite = np.isfinite(b)
    if not np.array_equal(np.isfinite(a), finite):
        return float("inf")
    largest = float(np.abs(b[finite]).max(initial=0.0)) or 1.0
    return float(np.abs(a[finite] - b[finite]).max(initial=0.0)) / largest
