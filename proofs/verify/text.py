"""A verdict as text for people: one line each for the proved, the assumed and the unchecked, or the witness.

Obligations are printed as words, the one that a witness violates by its name, as in all other formats; `tmmu explain`
explains each. `-v` prints everything that the JSON output has. spec: C1.3, C1.10, V5.2, V5.3, V5.11, Z1.1, FP1.4
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from proofs.definition import promises
from proofs.definition.violations import Obligation
from proofs.verify.verdict import COMPUTED, NOT_CLAIMED, NOTHING_TO_CHECK, TYPES, Verdict
from tmmu.core.bindings import describe_runtime, format_ranges
from tmmu.core.output import count_noun, list_names
from tmmu.core.vocabulary import UINT64_END, Bindings, RuntimeGraph, SteppedDim

LISTED = 4
"""The most assumptions of reading that the short text shows; `-v` shows all."""
LEMMAS = "lemmas"
"""The name of the lemmas among what was proved; the short text takes them for granted."""
AGAIN = {promises.NAME: "from the definition", "kernel": "by the Coq kernel"}
"""What proves other obligations once more."""
EVERY_SHAPE = "by the Coq kernel at every shape"
OF_PROVENANCE = "provenance."


def lines(verdict: Verdict, verbose: bool = False) -> Iterator[str]:
    """Yield the lines of a verdict, the first with verdict, file and scope.

    With `verbose` each obligation, assumption and reason follows on a separate line.
    """
    if verdict.verdict == "ERROR":
        yield from (f"error: {note}" for note in verdict.notes)
        return
    yield verdict.line
    if verdict.witness is not None:
        from proofs.verify import picture  # a verdict without a witness needs none

        yield f"  {verdict.witness['obligation']}: {verdict.witness['text']}"
        yield from (f"  {line}" for line in (*_witness(verdict.witness), *picture.in_text(verdict.witness)))
    elif proved := _proved(verdict):
        yield f"  {proved}"
    yield f"  assumed: {'; '.join(_assumed(verdict))}"
    if verdict.witness is None and (skipped := list(_not_checked(verdict.not_looked_at))):
        yield f"  not checked: {', '.join(skipped)}"
    yield from (f"  note: {note}" for note in verdict.notes if verbose or note != COMPUTED)
    if verbose:
        yield from (f"  {line}" for line in _details(verdict))


def words(name: str) -> str:
    """Return the name of an obligation as words.

    >>> words("no_live_overlap")
    'no live overlap'
    """
    return name.replace("_", " ")


def _proved(verdict: Verdict) -> str:
    """Return the proved and the compared obligations, and the further means of proof."""
    names = [name for name in verdict.proved if name != LEMMAS]
    again = AGAIN | {"kernel": _by_kernel(verdict)}
    parts = {
        "proved": [words(name) for name in names if name not in AGAIN],
        "again": [again[name] for name in names if name in AGAIN],
        "compared": list(map(words, verdict.compared)),
    }
    return "; ".join(f"{what}: {', '.join(of)}" for what, of in parts.items() if of)


def _by_kernel(verdict: Verdict) -> str:
    """Return what the kernel has proved once more. Of inputs that is only that a plan keeps them. spec: V6.13, Z1.1"""
    words_ = EVERY_SHAPE if verdict.kernel.get("every_shape") else AGAIN["kernel"]
    by_rows_only = Obligation.INPUTS_KEPT in verdict.proved and not verdict.kernel.get("inputs_kept")
    return f"{words_} except inputs kept" if by_rows_only else words_


def _assumed(verdict: Verdict) -> Iterator[str]:
    """Yield each assumption in short. An approximation is one only if the plan is not proved: it is stricter."""
    given = verdict.assumptions
    yield given["execution"]
    if "mode" in given:
        yield f"mode {given['mode']}"
    if bound := _bound(given):
        yield bound
    if runtime := given.get("runtime"):
        made = RuntimeGraph(**{key: value for key, value in runtime.items() if key != "source_digest"})
        yield f"the graph {describe_runtime(made)} of the model (SHA-256 {runtime['source_digest']})"
    if given.get("symbolic"):
        yield "a run puts slots one behind the other, with the sizes that its shape needs"
    if given["defaults"]:
        yield f"defaults {_pairs(given['defaults'])}"
    if given["donated"]:
        yield f"donated: {list_names(given['donated'])}"
    if changed := [one for one in given.get("shared", ()) if any(use["exit"] for use in one["uses"].values())]:
        yield f"state: {'; '.join(map(_state, changed[:LISTED]))}{'; …' if len(changed) > LISTED else ''}"
    if given.get("initial"):
        yield f"written before the first call: {list_names(given['initial'])}"
    for program, before in given.get("called_before", {}).items():
        yield f"{program} is called after {list_names(before)}"
    if given["overwritten_inputs"] and verdict.witness is None:
        lost = [f"{name} (by {by})" for name, by in given["overwritten_inputs"].items()]
        yield f"inputs that are overwritten: {list_names(lost)}"
    if given["believed_operators"]:
        yield f"operators as the file states them: {list_names(given['believed_operators'])}"
    if workspace := given.get("workspace"):
        yield f"workspace as given here: {_pairs({name: f'{size} bytes' for name, (size, _) in workspace.items()})}"
    if given["stated_sizes"]:
        yield f"sizes as given here: {_pairs(given['stated_sizes'])}"
    if given["assumed_sizes"]:
        sizes = [f"{operator} ({reason})" for operator, reason in given["assumed_sizes"].items()]
        yield f"sizes of results: {list_names(sizes)}"
    if given["trusted_shapes"]:
        yield "shapes as the model file states them"
    if verdict.witness is None:
        if given["arenas"]:
            yield _arenas_in_short(given["arenas"], given["bases"])
        elif given["bases"]:
            yield _bases_in_short(given["bases"])
    reading = verdict.reading or {"assumptions": (), "approximations": ()}
    sentences = [*reading["assumptions"]]
    if verdict.verdict != "PROVED":
        sentences += [f"stricter than the file: {sentence}" for sentence in reading["approximations"]]
    yield from sentences[:LISTED]
    if len(sentences) > LISTED:
        yield f"{len(sentences) - LISTED} more (-v)"


def _state(one: dict[str, Any]) -> str:
    """Return a shared tensor with the entry and exit that each program has."""
    uses = [
        f"{program} {use['entry'] or 'nothing'} to {use['exit'] or 'the same'}" for program, use in one["uses"].items()
    ]
    return f"{one['name']} ({', '.join(uses)})"


def _bound(given: dict[str, Any]) -> str:
    """Return the bindings, ranges and values by name, as they are written on a command line."""
    steps = {name: SteppedDim(*step) for name, step in given["steps"].items()}
    ranges = format_ranges(Bindings(ranges=given["ranges"], steps=steps))
    return _pairs({**given["dims"], **ranges, **given["shapes"], **given["values"]})


def _pairs(values: dict[str, Any]) -> str:
    return ", ".join(f"{name}={_shape(values[name])}" for name in sorted(values))


def _arenas_in_short(arenas: Sequence[dict[str, Any]], bases: dict[str, int]) -> str:
    """Return how many arenas are taken as the plan states them, with their limits and what their bases need."""
    capacities = sorted({arena["capacity"] for arena in arenas})
    if capacities == [UINT64_END - 1]:
        limit = "of unlimited capacity"
    elif len(capacities) == 1:
        limit = f"of {count_noun(capacities[0], 'byte')}"
    else:
        limit = "with the stated capacities"
    return f"{count_noun(len(arenas), 'arena')} {limit}, {_bases_in_short(bases)}"


def _bases_in_short(bases: dict[str, int]) -> str:
    """Return the alignment that the base of each arena must have. spec: V5.11

    >>> _bases_in_short({"a": 64, "b": 64}), _bases_in_short({"a": 4, "b": 64, "c": 4})
    ('base alignment 64', 'base alignments 4 (a, c), 64 (b)')
    """
    found = sorted(set(bases.values()))
    if len(found) == 1:
        return f"base alignment {found[0]}"
    named = (f"{value} ({list_names([name for name in bases if bases[name] == value], LISTED)})" for value in found)
    return f"base alignments {', '.join(named)}"


def _not_checked(reasons: dict[str, str]) -> Iterator[str]:
    """Yield what was not checked and could be, with what to do; what a plan gives no occasion for is left out."""
    shown = dict(reasons)
    if Obligation.STEPS_ARE_THE_MODEL in shown:
        for name in (Obligation.STEPS_ARE_THE_MODEL, TYPES):
            shown.pop(name, None)
        yield "the model (--model)"
    if shown.pop(Obligation.ARENAS_ARE_CONFIGURED, None) is not None:
        yield "arena configuration (--arenas)"
    for reason in dict.fromkeys(shown.values()):
        names = [
            words(name)
            for name, why in shown.items()
            if why == reason and why not in NOTHING_TO_CHECK and not name.startswith(OF_PROVENANCE)
        ]
        if "claims" in shown and reason in NOT_CLAIMED:
            continue
        if names:
            yield f"{', '.join(names)} ({reason})"


def _details(verdict: Verdict) -> Iterator[str]:
    """Yield each obligation with its rows and solvers, the reading, the arenas, and everything that was not checked."""
    for entry in verdict.obligations:
        solvers = ", ".join(f"{name} {answer}" for name, answer in entry.get("solvers", {}).items())
        rows = f", {count_noun(entry['rows'], 'row')}" if "rows" in entry else ""
        detail = f" ({entry['detail']})" if entry.get("detail") else ""
        yield f"{entry['name']}: {entry['verdict']}{rows}{f', {solvers}' if solvers else ''}{detail}"
    if verdict.reading is not None:
        yield f"read as: {verdict.reading['format']}, {verdict.reading['extent']}"
        yield from (f"assumed in reading: {sentence}" for sentence in verdict.reading["assumptions"])
        yield from (f"stricter than the file: {sentence}" for sentence in verdict.reading["approximations"])
        yield from (f"outside of the plan: {name} ({why})" for name, why in verdict.reading["outside"].items())
    if verdict.assumptions["arenas"]:
        yield f"arenas as the plan states them: {', '.join(_arenas(verdict.assumptions))}"
    for reason in dict.fromkeys(verdict.not_looked_at.values()):
        names = (name for name, why in verdict.not_looked_at.items() if why == reason)
        yield f"not looked at: {', '.join(names)} ({reason})"


def _arenas(assumptions: dict[str, Any]) -> Iterator[str]:
    """Yield the arenas by equal capacity and alignments, then how many devices and rules there are."""
    bases = assumptions["bases"]
    figures = {a["name"]: (a["capacity"], a["alignment"], bases[a["name"]]) for a in assumptions["arenas"]}
    for each in dict.fromkeys(figures.values()):
        capacity, alignment, base = each
        names = " ".join(name for name, stated in figures.items() if stated == each)
        limit = "unlimited" if capacity == UINT64_END - 1 else capacity
        yield f"{names} (capacity {limit}, alignment {alignment}{f', base {base}' if base != alignment else ''})"
    yield from (
        count_noun(len(assumptions[f"{what}s"]), what) for what in ("device", "rule") if assumptions[f"{what}s"]
    )


def _shape(value: Any) -> str:
    return "x".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _witness(witness: dict[str, Any]) -> Iterator[str]:
    """Yield the tensors, steps, bytes or fields that a witness names, a line each."""
    if witness.get("tensors"):
        yield f"tensors: {', '.join(witness['tensors'])}"
    if witness.get("programs"):
        yield f"programs: {', '.join(witness['programs'])}"
    if witness.get("calls"):
        yield f"calls: {', '.join(witness['calls'])}"
    if witness.get("ranks"):
        yield f"ranks: {', '.join(map(str, witness['ranks']))}"
    if witness.get("element"):
        yield f"element: {', '.join(map(str, witness['element']))}"
    if witness.get("steps"):
        yield f"step: {', '.join(map(str, witness['steps']))}"
    if witness.get("shape"):
        yield f"shape: {', '.join(f'{name}={size}' for name, size in witness['shape'].items())}"
    if witness.get("first_byte") is not None:
        yield f"bytes: {witness['first_byte']} to {witness['last_byte']} of {witness['arena']}"
    if "stated" in witness:
        yield f"stated: {witness['stated'] or 'nothing'}"
        yield f"recomputed: {witness['recomputed'] or 'nothing'}"
