"""States of a machine and what an action does to them, as text: what statements about `tla/` are made of.

A state is a set of named functions and numbers. Its parts carry a suffix: `0` before an action, `1` after it.
spec: V4.9
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class State(NamedTuple):
    """The parts of a state: sorts of the arguments and of the value of each function, and the names of the numbers.

    A function without arguments is a constant of its sort.
    """

    functions: Mapping[str, tuple[tuple[str, ...], str]]
    numbers: tuple[str, ...] = ()

    def declared(self, suffix: str) -> str:
        """The declarations of one state.

        >>> State({"live": (("Storage",), "Bool")}, ("now",)).declared("0")
        '(declare-fun live0 (Storage) Bool)(declare-const now0 Int)'
        """
        functions = (
            f"(declare-fun {name}{suffix} ({' '.join(a)}) {b})" if a else f"(declare-const {name}{suffix} {b})"
            for name, (a, b) in self.functions.items()
        )
        return "".join((*functions, *(f"(declare-const {name}{suffix} Int)" for name in self.numbers)))

    def becomes(self, name: str, at: tuple[str, ...], value: str) -> str:
        """The named function has a new value at one place, and its old values elsewhere; a constant has a new value.

        >>> State({"live": (("Storage",), "Bool")}).becomes("live", ("x",), "true")
        '(forall ((z0 Storage)) (= (live1 z0) (ite (= z0 x) true (live0 z0))))'
        """
        if not at:
            return f"(= {name}1 {value})"
        bound, z = self._bound(name)
        here = all_of(tuple(f"(= z{k} {place})" for k, place in enumerate(at)))
        return f"(forall ({bound}) (= ({name}1 {z}) (ite {here} {value} ({name}0 {z}))))"

    def same(self, *names: str) -> tuple[str, ...]:
        """The named parts are the same before and after, a formula each."""
        return tuple(f"(= {name}1 {name}0)" if name in self.numbers else self._same(name) for name in names)

    def others(self, *changed: str) -> tuple[str, ...]:
        """All parts but those named are the same before and after: TLA's UNCHANGED."""
        return self.same(*(name for name in (*self.functions, *self.numbers) if name not in changed))

    def _same(self, name: str) -> str:
        if not self.functions[name][0]:
            return f"(= {name}1 {name}0)"
        bound, z = self._bound(name)
        return f"(forall ({bound}) (= ({name}1 {z}) ({name}0 {z})))"

    def _bound(self, name: str) -> tuple[str, str]:
        sorts = self.functions[name][0]
        return " ".join(f"(z{k} {sort})" for k, sort in enumerate(sorts)), " ".join(f"z{k}" for k in range(len(sorts)))


def all_of(formulas: tuple[str, ...]) -> str:
    """One formula that says what all of them say. SMT-LIB has no conjunction of one."""
    return formulas[0] if len(formulas) == 1 else f"(and {' '.join(formulas)})"


def assumed(formula: str) -> str:
    """How a hypothesis stands in a statement's text, for mutants that leave it out."""
    return f"(assume {formula})"
