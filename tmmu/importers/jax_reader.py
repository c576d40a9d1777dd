"""Jaxprs as plain traces: equations, calls that are inlined, and loops and branches with their bodies.

A jaxpr is functional and has no storages: every result has separate bytes, except results that show the bytes of an
operand in row-major order. spec: T8.2, T8.3, T8.6, T8.9, I2.7
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import MAIN, Role
from tmmu.importers.conversion import bad
from tmmu.importers.traced import Op, Region, TracedValue, TrainingTrace
from tmmu.operators import iterates, row_of
from tmmu.operators.jax import JAX

DTYPES = {
    **{name: name for name in (
        "float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "int4", "int2", "uint64",
        "uint32", "uint16", "uint8", "uint4", "uint2", "bool", "complex64", "complex128",
    )},
    "float8_e4m3fn": "float8e4m3fn", "float8_e4m3fnuz": "float8e4m3fnuz", "float8_e5m2": "float8e5m2",
    "float8_e5m2fnuz": "float8e5m2fnuz", "float8_e8m0fnu": "float8e8m0", "float4_e2m1fn": "float4e2m1",
}  # fmt: skip
"""The name in this project for each element type of JAX."""

CALLS = {
    "pjit": "jaxpr", "jit": "jaxpr", "closed_call": "call_jaxpr", "core_call": "call_jaxpr", "checkpoint": "jaxpr",
    "remat": "jaxpr", "remat2": "jaxpr", "custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr", "custom_lin": "jaxpr",
}  # fmt: skip
"""The primitives that are only a call, with the parameter that contains the called jaxpr."""

SCALAR = ("reduce", "scatter", "select_and_scatter", "argmin", "argmax", "sort", "cumsum")
"""The prefixes of primitives whose jaxpr combines two elements, which is not a body in the sense of a plan."""


class JaxprReader:
    """A trace that is being filled.

    In every method, `env` maps the variables of the current jaxpr to names of values, and literals to None.
    """

    def __init__(self, trace: TrainingTrace) -> None:
        self.trace = trace
        self.count: Counter[str] = Counter()
        self.is_update = False
        self.home: dict[str, int] = {}
        self.formal: set[str] = set()

    def main(self, closed: Any, parameters: list[str], inputs: list[str]) -> None:
        """Read the jaxpr of a step: its inputs are parameters, inputs and seed, its outputs the loss and gradients."""
        trace, jaxpr = self.trace, closed.jaxpr
        env: dict[Any, str | None] = {}
        roles = [Role.PARAMETER] * len(parameters) + [Role.INPUT] * (len(inputs) + 1)
        for var, name, role in zip(jaxpr.invars, [*parameters, *inputs, "loss.seed"], roles, strict=True):
            if name in trace.given:
                raise bad(f"parameter {name!r}", "two leaves have this name", "rename one")
            env[var] = self._add_value(name, var.aval, MAIN)
            trace.given[name] = role
        trace.seeds.add("loss.seed")
        self._add_constants(closed, env)
        self._read_equations(jaxpr, env, MAIN)
        results = [self._take_result(var, env, MAIN) for var in jaxpr.outvars]
        trace.outputs = results
        trace.gradients = dict(zip(parameters, results[1:], strict=True))

    def update(self, closed: Any, parameters: list[str], states: list[str]) -> None:
        """Read the jaxpr of an update of parameters and state from parameters, gradients and state. spec: I2.11"""
        trace, invars, count = self.trace, closed.jaxpr.invars, len(parameters)
        self.is_update = True
        env: dict[Any, str | None] = dict(zip(invars[:count], parameters, strict=True))
        env |= zip(invars[count : 2 * count], trace.gradients.values(), strict=True)
        for var, name in zip(invars[2 * count :], states, strict=True):
            env[var] = self._add_value(name, var.aval, MAIN)
            trace.given[name] = Role.OPTIMIZER
        self._add_constants(closed, env)
        self._read_equations(closed.jaxpr, env, MAIN)
        targets = [*parameters, *states]
        made = [self._take_result(var, env, MAIN) for var in closed.jaxpr.outvars]
        kept = {trace.values[name].storage for name in targets}
        for k, (target, name) in enumerate(zip(targets, made, strict=True)):
            if name != target and trace.values[name].storage in kept:  # it shows bytes that another copy may change
                made[k] = self._add_value(self._make_name("copy"), closed.jaxpr.outvars[k].aval, MAIN)
                trace.ops.append(Op(made[k], JAX, "copy", (name,), (made[k],), optimizer=True))
        for target, name in zip(targets, made, strict=True):
            if name != target:
                trace.ops.append(Op(f"{target}.update", JAX, "copy", (name,), (), changes=(target,), optimizer=True))
        trace.outputs = [name for name in trace.outputs if name not in trace.gradients.values()]

    def _add_value(self, name: str, aval: Any, region: int, shows: str | None = None) -> str:
        """Add a value, with separate bytes or with those of the value that it shows; return its name."""
        shape, dtype = tuple(aval.shape), aval.dtype
        if str(dtype).startswith("key<"):  # keys of random numbers
            shape, dtype = (*shape, *dtype._impl.key_shape), "uint32"
        if str(dtype) not in DTYPES:
            raise TmmuError("INVALID_IR_SHAPES", f"unknown dtype {dtype}", place=f"value {name!r}", node_id=name)
        if any(type(dim) is not int for dim in shape):
            raise bad(f"value {name!r}", "its size is symbolic", "trace with fixed sizes")
        if name in self.trace.values:
            raise bad(f"value {name!r}", "a parameter or an input has the same name as a result", "rename it")
        storage = name if shows is None else self.trace.values[shows].storage
        self.trace.values[name] = TracedValue(shape, DTYPES[str(dtype)], storage=storage)
        self.home[name] = region
        return name

    def _add_constants(self, closed: Any, env: dict[Any, str | None]) -> None:
        """Add the arrays that a jaxpr closes over; the caller writes them."""
        for var in closed.jaxpr.constvars:
            name = self._make_name("constant")
            env[var] = self._add_value(name, var.aval, MAIN)
            self.trace.given[name] = Role.PARAMETER

    def _make_name(self, what: str) -> str:
        """Return a name that no value and no operation has."""
        self.count[what] += 1
        name = what if self.count[what] == 1 else f"{what}_{self.count[what] - 1}"
        return name if name not in self.trace.values else self._make_name(what)

    def _read(self, var: Any, env: dict[Any, str | None]) -> str | None:
        return None if hasattr(var, "val") else env[var]

    def _take_result(self, var: Any, env: dict[Any, str | None], region: int) -> str:
        """Return a result of a jaxpr; a separate operation writes a literal."""
        name = self._read(var, env)
        if name is not None:
            return name
        made = self._add_value(self._make_name("literal"), var.aval, region)
        self.trace.ops.append(Op(made, JAX, "literal", (), (made,), region=region, optimizer=self.is_update))
        return made

    def _read_equations(self, jaxpr: Any, env: dict[Any, str | None], region: int) -> None:
        for eqn in jaxpr.eqns:
            kind = eqn.primitive.name
            if kind in CALLS and CALLS[kind] in eqn.params:
                self._inline(eqn.params[CALLS[kind]], eqn, env, region)
            elif kind in ("scan", "while", "cond"):
                self._read_with_bodies(eqn, env, region)
            elif not kind.startswith(SCALAR) and any(map(self._is_jaxpr, eqn.params.values())):
                what = "it contains a jaxpr, but the number of its runs is not known"
                raise bad(f"primitive {kind!r}", what, "trace the function without it")
            else:
                self._read_plain(eqn, env, region)

    def _is_jaxpr(self, value: Any) -> bool:
        if isinstance(value, (tuple, list)):
            return any(map(self._is_jaxpr, value))
        return hasattr(value, "eqns") or hasattr(value, "jaxpr")

    def _inline(self, called: Any, eqn: Any, env: dict[Any, str | None], region: int) -> None:
        jaxpr = getattr(called, "jaxpr", called)
        inner = dict(zip(jaxpr.invars, (self._read(var, env) for var in eqn.invars), strict=True))
        if jaxpr is not called:
            self._add_constants(called, inner)
        self._read_equations(jaxpr, inner, region)
        for var, result in zip(eqn.outvars, jaxpr.outvars, strict=True):
            env[var] = self._take_result(result, inner, region)

    def _read_plain(self, eqn: Any, env: dict[Any, str | None], region: int) -> None:
        kind = eqn.primitive.name
        reads = [name for name in (self._read(var, env) for var in eqn.invars) if name is not None]
        op = self._make_name(kind)
        shown = self._find_shown(eqn, env, region)
        results = []
        for k, var in enumerate(eqn.outvars):
            name = op if len(eqn.outvars) == 1 else f"{op}.{k}"
            results.append(self._add_value(name, var.aval, region, shown[k]))
            env[var] = name
        row, is_one = row_of(JAX, kind), len(results) == 1
        self.trace.ops.append(
            Op(
                op, JAX, kind, tuple(reads), tuple(results), elementwise=row.elementwise and is_one, region=region,
                optimizer=self.is_update, updates=bool(row.takes) and is_one,
            )
        )  # fmt: skip

    def _find_shown(self, eqn: Any, env: dict[Any, str | None], region: int) -> list[str | None]:
        """Return for each result the operand whose bytes it shows: one of the same body, not a formal input (T8.6)."""
        kind = eqn.primitive.name
        found: list[str | None] = [None] * len(eqn.outvars)
        if row_of(JAX, kind).passes_on:
            found = [self._read(var, env) for var in eqn.invars[: len(eqn.outvars)]]
        elif len(found) == 1 and eqn.invars and _keeps_bytes(eqn):
            found = [self._read(eqn.invars[0], env)]
        return [
            name if name is not None and self.home[name] == region and name not in self.formal else None
            for name in found
        ]

    def _read_with_bodies(self, eqn: Any, env: dict[Any, str | None], region: int) -> None:
        """Read a loop or a branch: constants and operands of branches are captured; carries and slices are inputs."""
        kind, params = eqn.primitive.name, eqn.params
        given = [self._read(var, env) for var in eqn.invars]
        op = self._make_name(kind)
        results = []
        for k, var in enumerate(eqn.outvars):
            name = f"{op}.{k}"
            env[var] = self._add_value(name, var.aval, region)
            results.append(name)
        reads = tuple(name for name in given if name is not None)
        self.trace.ops.append(Op(op, JAX, kind, reads, tuple(results), region=region, optimizer=self.is_update))
        again = iterates(JAX, kind)
        if kind == "scan":
            self._read_body(op, "body", params["jaxpr"], given[: params["num_consts"]], again)
        elif kind == "while":
            split = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
            self._read_body(op, "cond", params["cond_jaxpr"], given[: split[0]], again)
            self._read_body(op, "body", params["body_jaxpr"], given[split[0] : split[1]], again)
        else:
            for k, branch in enumerate(params["branches"]):
                self._read_body(op, f"branch{k}", branch, given[1:], again)

    def _read_body(self, owner: str, attribute: str, closed: Any, captured: Iterable[str | None], again: bool) -> None:
        """Read one body: its first inputs are captured values, the others formal inputs."""
        place = len(self.trace.regions)
        self.trace.regions.append(Region(owner, attribute, (), (), again))
        number, env = place + 1, dict[Any, str | None]()
        formals, names = list(closed.jaxpr.invars), list(captured)
        for var, name in zip(formals, names, strict=False):
            env[var] = name
        inputs = []
        for var in formals[len(names) :]:
            env[var] = self._add_value(self._make_name("given"), var.aval, number)
            inputs.append(str(env[var]))
        self.formal.update(inputs)
        self._add_constants(closed, env)
        self._read_equations(closed.jaxpr, env, number)
        outputs = tuple(self._take_result(var, env, number) for var in closed.jaxpr.outvars)
        self.trace.regions[place] = Region(owner, attribute, tuple(inputs), outputs, again)


def _keeps_bytes(eqn: Any) -> bool:
    """Return whether the only result of an equation has the bytes of its first operand in their row-major order."""
    kind, operand, result = eqn.primitive.name, eqn.invars[0].aval, eqn.outvars[0].aval
    if getattr(operand, "size", None) != result.size:
        return False
    if kind == "reshape" and eqn.params.get("dimensions") is not None:
        return False
    if kind == "bitcast_convert_type" and operand.dtype.itemsize != result.dtype.itemsize:
        return False
    return row_of(JAX, kind).view
