"""Verdicts for programs: JSON, JUnit XML and SARIF 2.1.0 state the same facts. spec: C1.4, C1.5, C1.8"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree as Xml

from proofs.verify import constructs
from proofs.verify.verdict import Verdict
from tmmu.core.flags import SkippedFile
from tmmu.core.output import escape_line, format_json

SARIF_LEVELS = {"PROVED": "none", "REFUTED": "error", "UNKNOWN": "warning", "ERROR": "error"}


def _facts(verdict: Verdict) -> dict[str, Any]:
    """Return what JUnit and SARIF state of each file beside obligations: what the verdict is about and rests on."""
    return {
        "verdict": verdict.verdict, "scope": verdict.scope, "model": verdict.model, "taken_from": verdict.taken_from,
        "assumptions": verdict.assumptions, "reading": verdict.reading, "not_looked_at": verdict.not_looked_at,
        "notes": verdict.notes, "witness": verdict.witness, "constructs": verdict.constructs,
    }  # fmt: skip


def as_json(verdicts: Sequence[Verdict], skipped: Sequence[SkippedFile] = ()) -> str:
    """`{"files": [...]}`, one object a verdict, with the skipped files of folders, and unknown constructs."""
    return format_json({"files": [asdict(verdict) for verdict in verdicts], **_of_all(verdicts, skipped)})


def _of_all(verdicts: Sequence[Verdict], skipped: Sequence[SkippedFile]) -> dict[str, Any]:
    """Return what is stated of all files together. spec: C1.17, FP1.18"""
    return {"skipped": [each._asdict() for each in skipped], "unknown_constructs": constructs.count(verdicts)}


def as_junit(verdicts: Sequence[Verdict], skipped: Sequence[SkippedFile] = ()) -> str:
    """One test suite a file, one test case an obligation; a file that could not be read is an error.

    The verdict, its scope and its assumptions are properties of the suite, written as JSON but for the first two. What
    is skipped has no place in this format: the standard error has it.
    """
    suites = Xml.Element("testsuites", name="verify-plan")
    for verdict in verdicts:
        cases = verdict.obligations or [
            {"name": "plan", "verdict": verdict.verdict, "detail": "; ".join(verdict.notes)}
        ]
        wrong = [c for c in cases if c["verdict"] == "REFUTED"]
        errors = [c for c in cases if c["verdict"] not in ("PROVED", "REFUTED")]
        counts = {"tests": str(len(cases)), "failures": str(len(wrong)), "errors": str(len(errors))}
        suite = Xml.SubElement(suites, "testsuite", {"name": escape_line(verdict.file), **counts})
        properties = Xml.SubElement(suite, "properties")
        for name, value in _facts(verdict).items():
            written = value if name in ("verdict", "scope") else json.dumps(value)
            Xml.SubElement(properties, "property", name=name, value=written)
        for case in cases:
            element = Xml.SubElement(suite, "testcase", classname=escape_line(verdict.file), name=case["name"])
            if case["verdict"] != "PROVED":
                kind = "failure" if case["verdict"] == "REFUTED" else "error"
                Xml.SubElement(element, kind, message=escape_line(str(case.get("detail") or case["verdict"])))
    Xml.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + Xml.tostring(suites, encoding="unicode")


def as_sarif(verdicts: Sequence[Verdict], skipped: Sequence[SkippedFile] = ()) -> str:
    """One run; a result for each file that is not proved, with the tensors as logical locations.

    Each file is an artifact with the scope and the assumptions of its verdict, the proved ones included.
    """
    results, rules, artifacts = [], set(), []
    for verdict in verdicts:
        uri = quote(os.fsencode(verdict.file))
        artifacts.append({"location": {"uri": uri}, "properties": _facts(verdict)})
        if verdict.verdict == "PROVED":
            continue
        witness = verdict.witness or {}
        rule = witness.get("obligation", verdict.verdict.lower())
        rules.add(rule)
        message = witness.get("text") or "; ".join(verdict.notes) or verdict.verdict
        location: dict[str, Any] = {"physicalLocation": {"artifactLocation": {"uri": uri}}}
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
        "artifacts": artifacts,
        "results": results,
        "properties": _of_all(verdicts, skipped),
    }
    return format_json({"version": "2.1.0", "runs": [run]})


WRITERS: dict[str, Callable[[Sequence[Verdict], Sequence[SkippedFile]], str]] = {
    "json": as_json,
    "junit": as_junit,
    "sarif": as_sarif,
}
