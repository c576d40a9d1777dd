"""Verdicts as text, JSON, JUnit XML and SARIF 2.1.0: the same facts for people, scripts, CI and code hosts.

spec: C1.3, C1.4, C1.5, C1.8, C1.10
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree as Xml

from proofs.verify import picture
from proofs.verify.verdict import Verdict
from tmmu.core.bindings import ranges_text
from tmmu.core.output import counted, json_text, one_line
from tmmu.core.vocabulary import UINT64_END, Bindings, SteppedDim

SHOWN = 8
"""Donated inputs that text output names; JSON has all of them."""

SARIF_LEVELS = {"PROVED": "none", "REFUTED": "error", "UNKNOWN": "warning", "ERROR": "error"}


def text(verdict: Verdict, verbose: bool = False) -> Iterator[str]:
    """The verdict's line, then what it rests on or what is wrong."""
    if verdict.verdict == "ERROR":
        yield from (f"error: {note}" for note in verdict.notes)
        return
    yield verdict.line
    if verdict.witness is not None:
        yield f"  {verdict.witness['obligation']}: {verdict.witness['text']}"
        yield from (f"  {line}" for line in (*_witness(verdict.witness), *picture.in_text(verdict.witness)))
    else:
        for what, names in (("proved", verdict.proved), ("compared", verdict.compared)):
            if names:
                yield f"  {what}: {', '.join(names)}"
        if verdict.not_looked_at:
            yield f"  not looked at: {', '.join(_with_reasons(verdict.not_looked_at))}"
    if verbose:
        yield from (f"  {line}" for line in _rows(verdict.obligations))
    if verdict.reading is not None:
        yield from (f"  {line}" for line in _reading(verdict.reading, verdict.witness is not None))
    if "mode" in verdict.assumptions:
        yield f"  mode: {verdict.assumptions['mode']}"
    steps = {name: SteppedDim(*step) for name, step in verdict.assumptions["steps"].items()}
    ranges = ranges_text(Bindings(ranges=verdict.assumptions["ranges"], steps=steps))
    bound = {**verdict.assumptions["dims"], **ranges, **verdict.assumptions["shapes"], **verdict.assumptions["values"]}
    for what, value in (("bindings", bound), ("defaults", verdict.assumptions["defaults"])):
        if value:
            yield f"  {what}: {', '.join(f'{name}={_shape(value[name])}' for name in sorted(value))}"
    if verdict.assumptions["donated"]:
        yield f"  donated: {_few(verdict.assumptions['donated'])}"
    if verdict.assumptions["believed_operators"]:
        yield f"  assumed operators: {', '.join(verdict.assumptions['believed_operators'])}"
    if verdict.assumptions["stated_sizes"]:
        stated = verdict.assumptions["stated_sizes"]
        yield f"  assumed sizes, as they are given here: {', '.join(f'{name}={stated[name]}' for name in stated)}"
    if verdict.assumptions["assumed_sizes"]:
        sizes = (f"{operator} ({reason})" for operator, reason in verdict.assumptions["assumed_sizes"].items())
        yield f"  assumed sizes of results: {', '.join(sizes)}"
    if verdict.assumptions["arenas"] and verdict.witness is None:
        yield f"  assumed arenas: {', '.join(_arenas(verdict.assumptions))}"
    if verdict.assumptions["trusted_shapes"]:
        yield "  trusted: the shapes that the model file states"
    yield from (f"  note: {note}" for note in verdict.notes)


def _reading(reading: dict[str, Any], is_refuted: bool) -> Iterator[str]:
    """How a plan of another producer was read; what is outside stands among what was not looked at. spec: FP1.4"""
    yield f"read as: {reading['format']}, {reading['extent']}"
    yield from (f"assumed in reading: {sentence}" for sentence in reading["assumptions"])
    yield from (f"approximated: {sentence}" for sentence in reading["approximations"])
    if is_refuted and reading["outside"]:
        yield f"outside of the plan: {', '.join(_with_reasons(reading['outside']))}"


def _with_reasons(reasons: dict[str, str]) -> Iterator[str]:
    """Names with their reasons, each reason once."""
    for reason in dict.fromkeys(reasons.values()):
        yield f"{', '.join(name for name, why in reasons.items() if why == reason)} ({reason})"


def _arenas(assumptions: dict[str, Any]) -> Iterator[str]:
    """The arenas with what is assumed of each, equal figures once, and how many devices and rules there are."""
    figures = {arena["name"]: (arena["capacity"], arena["alignment"]) for arena in assumptions["arenas"]}
    for capacity, alignment in dict.fromkeys(figures.values()):
        names = _few([name for name, stated in figures.items() if stated == (capacity, alignment)], " ")
        limit = "unlimited" if capacity == UINT64_END - 1 else capacity
        yield f"{names} (capacity {limit}, alignment {alignment})"
    yield from (counted(len(assumptions[f"{what}s"]), what) for what in ("device", "rule") if assumptions[f"{what}s"])


def _rows(obligations: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Each obligation with its verdict, its rows and the solvers that were asked."""
    for entry in obligations:
        solvers = ", ".join(f"{name} {answer}" for name, answer in entry.get("solvers", {}).items())
        rows = f", {counted(entry['rows'], 'row')}" if "rows" in entry else ""
        detail = f" ({entry['detail']})" if entry.get("detail") else ""
        yield f"{entry['name']}: {entry['verdict']}{rows}{f', {solvers}' if solvers else ''}{detail}"


def _few(items: Sequence[str], separator: str = ", ") -> str:
    """The first of them, and how many more there are."""
    shown = separator.join(items[:SHOWN])
    return shown if len(items) <= SHOWN else f"{shown} and {len(items) - SHOWN} more"


def _shape(value: Any) -> str:
    return "x".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _witness(witness: dict[str, Any]) -> Iterator[str]:
    if witness.get("tensors"):
        yield f"tensors: {', '.join(witness['tensors'])}"
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


def as_json(verdicts: Sequence[Verdict]) -> str:
    """`{"files": [...]}`, one object a verdict."""
    return json_text({"files": [asdict(verdict) for verdict in verdicts]})


def as_junit(verdicts: Sequence[Verdict]) -> str:
    """One test suite a file, one test case an obligation; a file that could not be read is an error.

    The verdict and the witness (as JSON) are properties of the suite.
    """
    suites = Xml.Element("testsuites", name="verify-plan")
    for verdict in verdicts:
        cases = verdict.obligations or [
            {"name": "plan", "verdict": verdict.verdict, "detail": "; ".join(verdict.notes)}
        ]
        wrong = [c for c in cases if c["verdict"] == "REFUTED"]
        errors = [c for c in cases if c["verdict"] not in ("PROVED", "REFUTED")]
        counts = {"tests": str(len(cases)), "failures": str(len(wrong)), "errors": str(len(errors))}
        suite = Xml.SubElement(suites, "testsuite", {"name": one_line(verdict.file), **counts})
        facts = {"verdict": verdict.verdict, "witness": json.dumps(verdict.witness)}
        properties = Xml.SubElement(suite, "properties")
        for name, value in facts.items():
            Xml.SubElement(properties, "property", name=name, value=value)
        for case in cases:
            element = Xml.SubElement(suite, "testcase", classname=one_line(verdict.file), name=case["name"])
            if case["verdict"] != "PROVED":
                kind = "failure" if case["verdict"] == "REFUTED" else "error"
                Xml.SubElement(element, kind, message=one_line(str(case.get("detail") or case["verdict"])))
    Xml.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + Xml.tostring(suites, encoding="unicode")


def as_sarif(verdicts: Sequence[Verdict]) -> str:
    """One run; a result for each file that is not proved, with the tensors as logical locations."""
    results, rules = [], set()
    for verdict in verdicts:
        if verdict.verdict == "PROVED":
            continue
        witness = verdict.witness or {}
        rule = witness.get("obligation", verdict.verdict.lower())
        rules.add(rule)
        message = witness.get("text") or "; ".join(verdict.notes) or verdict.verdict
        location: dict[str, Any] = {"physicalLocation": {"artifactLocation": {"uri": quote(os.fsencode(verdict.file))}}}
        tensors = [{"fullyQualifiedName": name, "kind": "tensor"} for name in witness.get("tensors", ())]
        if tensors:
            location["logicalLocations"] = tensors
        results.append(
            {
                "ruleId": rule, "level": SARIF_LEVELS[verdict.verdict], "message": {"text": message},
                "locations": [location], "properties": {"verdict": verdict.verdict, "witness": witness},
            }
        )  # fmt: skip
    run = {
        "tool": {"driver": {"name": "verify-plan", "rules": [{"id": rule} for rule in sorted(rules)]}},
        "results": results,
    }
    return json_text({"version": "2.1.0", "runs": [run]})


WRITERS: dict[str, Callable[[Sequence[Verdict]], str]] = {"json": as_json, "junit": as_junit, "sarif": as_sarif}
