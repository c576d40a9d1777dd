"""Verdicts as text, JSON, JUnit and SARIF: the same facts, and no name that could pass for a verdict.

spec: C1.3, C1.4, C1.5, C1.7, C1.8, V5.2, V5.3, V5.9
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree as Xml

import pytest

from proofs.verify import formats, text
from proofs.verify.verdict import COMPUTED, EXECUTION, Verdict
from tmmu.core.output import print_lines

NOTHING: dict[str, Any] = {
    "dims": {}, "ranges": {}, "shapes": {}, "values": {}, "defaults": {}, "donated": [], "trusted_shapes": False,
    "believed_operators": [], "stated_sizes": {}, "assumed_sizes": {}, "steps": {}, "execution": EXECUTION,
    "arenas": [], "devices": [], "rules": [], "overwritten_inputs": {}, "bases": {},
}  # fmt: skip


def proved(file: str = "a.cbor") -> Verdict:
    assumed = {
        "dims": {"n": 4}, "ranges": {"m": [1, 8]}, "shapes": {"x": [1, 3]}, "values": {"rate": "16"},
        "defaults": {"k": "3"}, "donated": ["x"], "trusted_shapes": True, "believed_operators": ["own::Op"],
        "assumed_sizes": {"own::Op": "it has no rule"}, "stated_sizes": {}, "steps": {},
        "execution": EXECUTION, "arenas": [
            {"name": "one", "capacity": 2**64 - 1, "alignment": 128}, {"name": "two", "capacity": 64, "alignment": 1},
            {"name": "three", "capacity": 2**64 - 1, "alignment": 128},
        ],
        "devices": [{"name": "npu"}], "rules": [], "overwritten_inputs": {"z": "b"},
        "bases": {"one": 128, "two": 16, "three": 128},
    }  # fmt: skip
    obligations: list[dict[str, Any]] = [
        {"name": "hashes", "verdict": "PROVED", "detail": "by comparison"},
        {"name": "peak", "verdict": "PROVED", "rows": 3, "detail": ""},
    ]
    claims = {"activations": {"slots": 2, "slot_count": "minimal"}}
    return Verdict(
        file, "PROVED", 0, "against the model", obligations, ["peak"], ["hashes"], {"kernel": "not installed"}, claims,
        assumed, model="m.onnx",
    )  # fmt: skip


def refuted(file: str = "b.cbor", *names: str) -> Verdict:
    witness = {
        "obligation": "sharing_is_sound", "text": "step 2 (add) reads a, whose bytes hold b",
        "tensors": list(names or ("a", "b")), "steps": [2], "arena": "activations", "first_byte": 64, "last_byte": 127,
    }  # fmt: skip
    obligations: list[dict[str, Any]] = [
        {"name": "sharing_is_sound", "verdict": "REFUTED", "detail": witness["text"]},
        {"name": "peak", "verdict": "UNKNOWN", "detail": "not reached"},
    ]
    return Verdict(
        file,
        "REFUTED",
        1,
        "for the steps it states",
        obligations,
        assumptions=dict(NOTHING),
        witness=witness,
        notes=["one more"],
    )


def false_hash() -> Verdict:
    witness = {
        "obligation": "hashes", "text": "plan_hash is stated as 00; it is 11", "field": "plan_hash", "stated": "00",
        "recomputed": "",
    }  # fmt: skip
    return Verdict("h.cbor", "REFUTED", 1, "for the steps it states", assumptions=dict(NOTHING), witness=witness)


def unknown() -> Verdict:
    obligations: list[dict[str, Any]] = [
        {"name": "hashes", "verdict": "PROVED", "detail": "by comparison"},
        {"name": "peak", "verdict": "UNKNOWN", "rows": 3, "detail": "timeout"},
    ]
    notes = ["peak: the solver gave no answer (timeout)"]
    return Verdict(
        "c.cbor",
        "UNKNOWN",
        3,
        "for the steps it states",
        obligations,
        [],
        ["hashes"],
        assumptions=dict(NOTHING),
        notes=notes,
    )


def unread(note: str = "d.cbor: not a canonical CBOR plan [INVALID_PLAN]") -> Verdict:
    return Verdict("d.cbor", "ERROR", 4, "", notes=[note])


ALL = [proved(), refuted(), false_hash(), unknown(), unread()]


# Text.


def test_a_proved_plan_is_one_line_and_what_it_rests_on() -> None:
    assert list(text.lines(proved())) == [
        "PROVED a.cbor against m.onnx",
        "  proved: peak; compared: hashes",
        "  assumed: steps run one after another; m=1..8, n=4, rate=16, x=1x3; defaults k=3; donated: x; inputs that "
        "are overwritten: z (by b); operators as the file states them: own::Op; sizes of results: own::Op (it has no "
        "rule); shapes as the model file states them; 3 arenas with the stated capacities, base alignments 16 (two), "
        "128 (one, three)",
        "  not checked: kernel (not installed)",
    ]


def test_the_details_are_printed_when_they_are_asked_for() -> None:
    """Each obligation, the arenas by what is stated of them, and each reason."""
    found = proved()
    found.not_looked_at |= {"provenance.layout": "nothing to compare it with"}
    found.reading = {
        "format": "own", "extent": "as stated", "assumptions": [f"a{k}" for k in range(6)],
        "approximations": ["a region is one step"], "outside": {"constants": "they are in the file"},
    }  # fmt: skip
    short, whole = list(text.lines(found)), list(text.lines(found, verbose=True))
    assert whole[: len(short)] == short
    assert short[2].endswith("; a0; a1; a2; a3; 2 more (-v)")
    assert whole[len(short) :] == [
        "  hashes: PROVED (by comparison)",
        "  peak: PROVED, 3 rows",
        "  read as: own, as stated",
        *(f"  assumed in reading: a{k}" for k in range(6)),
        "  stricter than the file: a region is one step",
        "  outside of the plan: constants (they are in the file)",
        "  arenas as the plan states them: one three (capacity unlimited, alignment 128), two (capacity 64, alignment "
        "1, base 16), 1 device",
        "  not looked at: kernel (not installed)",
        "  not looked at: provenance.layout (nothing to compare it with)",
    ]


def test_an_approximation_is_printed_unless_the_plan_is_proved() -> None:
    """It is stricter than the file, so that it can be at fault for a refutation only. spec: FP1.5"""
    reading = {"format": "own", "extent": "e", "assumptions": [], "approximations": ["one step"], "outside": {}}
    for verdict, expected in ((proved(), False), (refuted(), True), (unknown(), True)):
        verdict.reading = reading
        assert ("stricter than the file: one step" in "\n".join(text.lines(verdict))) == expected


@pytest.mark.parametrize(
    ("arenas", "expected"),
    [
        ([(2**64 - 1, 8)], "1 arena of unlimited capacity, base alignment 8"),
        ([(64, 8), (64, 8)], "2 arenas of 64 bytes, base alignment 8"),
        ([(64, 8), (2**64 - 1, 16)], "2 arenas with the stated capacities, base alignments 8 (m0), 16 (m1)"),
    ],
)
def test_arenas_are_counted_with_their_limits(arenas: list[tuple[int, int]], expected: str) -> None:
    found = proved()
    names = [f"m{k}" for k in range(len(arenas))]
    found.assumptions["arenas"] = [
        {"name": name, "capacity": c, "alignment": a} for name, (c, a) in zip(names, arenas, strict=True)
    ]
    found.assumptions["bases"] = {name: a for name, (_, a) in zip(names, arenas, strict=True)}
    assert f"; {expected}" in list(text.lines(found))[2]
    found.assumptions["arenas"] = []  # with --arenas
    assert f"; {expected[expected.index('base') :]}" in list(text.lines(found))[2]


def test_what_a_plan_gives_no_occasion_for_is_in_the_details_only() -> None:
    """Of a plan without claims it is said once that there are none. spec: P2.5"""
    found = proved()
    found.not_looked_at = {
        "steps_are_the_model": "no model is given", "types": "no model is given",
        "arenas_are_configured": "no configuration is given", "must_not_alias": "no pairs are stated",
        "sharing_is_sound": "no two tensors share bytes", "slot_count": "no slots are claimed",
        "provenance.order": "nothing to compare it with", "claims": "the plan states none",
    }  # fmt: skip
    last = "  not checked: the model (--model), arena configuration (--arenas)"
    assert list(text.lines(found))[-1] == f"{last}, claims (the plan states none)"
    del found.not_looked_at["claims"]
    assert list(text.lines(found))[-1] == f"{last}, slot count (no slots are claimed)"


def test_how_lifetimes_were_computed_is_a_detail() -> None:
    found = proved()
    found.notes = [COMPUTED, "own"]
    assert [line for line in text.lines(found) if "note" in line] == ["  note: own"]
    assert [line for line in text.lines(found, verbose=True) if "note" in line] == [
        f"  note: {COMPUTED}",
        "  note: own",
    ]


def test_the_first_line_says_that_a_verdict_was_taken_from_an_earlier_run() -> None:
    """spec: V7.7"""
    found = proved()
    found.taken_from = "kept"
    assert next(text.lines(found)) == "PROVED a.cbor against m.onnx (taken from kept)"


def test_of_many_donated_tensors_the_first_are_named() -> None:
    found = proved()
    found.assumptions["donated"] = [f"w{k}" for k in range(9)]
    assert "; donated: w0, w1, w2, w3, w4, w5, w6, w7 and 1 more;" in list(text.lines(found))[2]


def test_a_refuted_plan_is_one_line_and_its_witness() -> None:
    assert list(text.lines(refuted())) == [
        "REFUTED b.cbor for the steps it states",
        "  sharing_is_sound: step 2 (add) reads a, whose bytes hold b",
        "  tensors: a, b",
        "  step: 2",
        "  bytes: 64 to 127 of activations",
        "  assumed: steps run one after another",
        "  note: one more",
    ]
    assert list(text.lines(false_hash())) == [
        "REFUTED h.cbor for the steps it states",
        "  hashes: plan_hash is stated as 00; it is 11",
        "  stated: 00",
        "  recomputed: nothing",
        "  assumed: steps run one after another",
    ]


def test_a_witness_names_the_ranks_the_element_and_the_shape() -> None:
    verdict = false_hash()
    verdict.witness = {
        "obligation": "shards_cover", "text": "nobody holds it", "tensors": ["w"], "ranks": [0, 1], "element": [3, 0],
        "steps": [], "shape": {"m": 1, "n": 64},
    }  # fmt: skip
    assert list(text.lines(verdict))[2:-1] == [
        "  tensors: w", "  ranks: 0, 1", "  element: 3, 0", "  shape: m=1, n=64",
    ]  # fmt: skip


def test_every_binding_is_shown() -> None:
    """Any one of them may have ruled out a branch. spec: C1.10"""
    verdict = proved()
    for which in ("dims", "values", "defaults"):
        verdict.assumptions[which] = {f"{which}{k}": str(k) for k in range(40)}
    printed = "\n".join(text.lines(verdict))
    assert all(f"{which}{k}={k}" in printed for which in ("dims", "values", "defaults") for k in range(40))


def test_what_the_plan_or_the_model_lacks_is_called_nothing() -> None:
    verdict = false_hash()
    assert verdict.witness is not None
    verdict.witness |= {"stated": "", "recomputed": "relu"}
    assert list(text.lines(verdict))[-3:-1] == ["  stated: nothing", "  recomputed: relu"]


def test_an_open_question_is_one_line_and_its_reasons() -> None:
    assert list(text.lines(unknown())) == [
        "UNKNOWN c.cbor for the steps it states",
        "  compared: hashes",
        "  assumed: steps run one after another",
        "  note: peak: the solver gave no answer (timeout)",
    ]


def test_what_could_not_be_read_has_no_line_that_begins_like_a_verdict() -> None:
    assert list(text.lines(unread())) == ["error: d.cbor: not a canonical CBOR plan [INVALID_PLAN]"]


HOSTILE = "a\nPROVED b.cbor against m.onnx\r\x1b[2J\u2028"


def test_a_hostile_name_begins_no_line_and_clears_no_screen(capsys: pytest.CaptureFixture[str]) -> None:
    for verdict in (refuted(HOSTILE, HOSTILE, "b"), unread(HOSTILE)):
        print_lines(*text.lines(verdict))
        printed = capsys.readouterr().out.splitlines()
        assert all(line.isprintable() for line in printed)
        assert not any(line.startswith("PROVED") for line in printed)


# JSON.


def test_json_holds_the_documented_fields_of_every_file() -> None:
    found = json.loads(formats.as_json(ALL))["files"]
    assert [(f["file"], f["verdict"], f["exit"]) for f in found] == [
        ("a.cbor", "PROVED", 0), ("b.cbor", "REFUTED", 1), ("h.cbor", "REFUTED", 1), ("c.cbor", "UNKNOWN", 3),
        ("d.cbor", "ERROR", 4),
    ]  # fmt: skip
    for entry in found:
        assert {"file", "verdict", "exit", "scope", "obligations", "claims", "assumptions", "witness"} <= set(entry)
    assert found[0]["assumptions"] == proved().assumptions
    assert found[1]["witness"] == refuted().witness
    assert (found[0]["witness"], found[4]["notes"]) == (None, unread().notes)


def test_json_of_a_name_that_no_encoding_has_can_be_printed_and_read() -> None:
    """A file's name need not be text; the commands print what cannot be encoded as an escape."""
    written = formats.as_json([unread("\udcff")]).encode("utf-8", "backslashreplace")
    assert json.loads(written)["files"][0]["notes"] == ["\udcff"]


def test_names_are_written_as_they_are_and_no_line_holds_everything() -> None:
    """Machines do not need it; who looks into the files does."""
    for write in formats.WRITERS.values():
        written = write([unread("größe")])
        assert "größe" in written
        assert len(written.splitlines()) > 5


# JUnit.


def test_junit_has_a_suite_a_file_and_a_case_an_obligation() -> None:
    suites = Xml.fromstring(formats.as_junit(ALL))
    assert [(s.get("name"), s.get("tests"), s.get("failures"), s.get("errors")) for s in suites] == [
        ("a.cbor", "2", "0", "0"), ("b.cbor", "2", "1", "1"), ("h.cbor", "1", "1", "0"), ("c.cbor", "2", "0", "1"),
        ("d.cbor", "1", "0", "1"),
    ]  # fmt: skip
    cases = {
        (case.get("classname"), case.get("name")): [child.tag for child in case] for case in suites.iter("testcase")
    }
    assert cases[("a.cbor", "peak")] == []
    assert cases[("b.cbor", "sharing_is_sound")] == ["failure"]
    assert cases[("c.cbor", "peak")] == ["error"]
    assert cases[("d.cbor", "plan")] == ["error"]


def test_junit_gives_the_reason_with_the_failure() -> None:
    suites = Xml.fromstring(formats.as_junit(ALL))
    messages = {(e.tag, e.get("message")) for e in suites.iter() if e.tag in ("failure", "error")}
    assert ("failure", "step 2 (add) reads a, whose bytes hold b") in messages
    assert ("error", "timeout") in messages
    assert ("error", "d.cbor: not a canonical CBOR plan [INVALID_PLAN]") in messages


def test_junit_gives_the_verdict_where_there_is_no_reason() -> None:
    verdict = unknown()
    verdict.obligations[1]["detail"] = ""
    [error] = Xml.fromstring(formats.as_junit([verdict])).iter("error")
    assert error.get("message") == "UNKNOWN"


def test_junit_gives_the_verdict_and_the_witness_of_json() -> None:
    suites = Xml.fromstring(formats.as_junit(ALL))
    for verdict, suite in zip(ALL, suites, strict=True):
        said = {str(p.get("name")): p.get("value") for p in suite.iter("property")}
        assert said["verdict"] == verdict.verdict
        assert json.loads(str(said["witness"])) == verdict.witness


@pytest.mark.parametrize("verdict", ALL, ids=lambda verdict: verdict.verdict)
def test_junit_and_sarif_state_what_a_verdict_is_about_and_rests_on(verdict: Verdict) -> None:
    """spec: C1.8, V5.2, V5.3"""
    verdict = replace(verdict, reading={"format": "own"}, taken_from="kept")
    [artifact] = sarif(verdict)["artifacts"]
    facts = artifact["properties"]
    assert facts["assumptions"] == verdict.assumptions
    assert (facts["scope"], facts["reading"], facts["taken_from"]) == (verdict.scope, {"format": "own"}, "kept")
    [suite] = Xml.fromstring(formats.as_junit([verdict]))
    stated = {str(p.get("name")): str(p.get("value")) for p in suite.iter("property")}
    assert {name: json.loads(stated[name]) for name in facts.keys() - {"verdict", "scope"}} == {
        name: value for name, value in facts.items() if name not in ("verdict", "scope")
    }
    assert (stated["verdict"], stated["scope"]) == (verdict.verdict, verdict.scope)


def test_junit_of_hostile_names_is_xml() -> None:
    verdict = refuted('a\x01\x0b<&">.cbor')
    verdict.obligations[0]["detail"] = "\x00\x1b\ufffe\udcff]]>"
    [suite] = Xml.fromstring(formats.as_junit([verdict]).encode("utf-8", "backslashreplace"))
    assert suite.get("name") == 'a\\x01\\x0b<&">.cbor'


# SARIF.


def sarif(*verdicts: Verdict) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(formats.as_sarif(verdicts))
    assert document["version"] == "2.1.0"
    [run] = document["runs"]
    return dict(run)


def test_sarif_has_a_result_for_every_file_that_is_not_proved() -> None:
    run = sarif(*ALL)
    assert [(r["ruleId"], r["level"], r["properties"]["verdict"]) for r in run["results"]] == [
        ("sharing_is_sound", "error", "REFUTED"),
        ("hashes", "error", "REFUTED"),
        ("unknown", "warning", "UNKNOWN"),
        ("error", "error", "ERROR"),
    ]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["error", "hashes", "sharing_is_sound", "unknown"]
    assert sarif(proved())["results"] == []


def test_sarif_gives_message_place_and_witness() -> None:
    [result] = sarif(refuted())["results"]
    assert result["message"]["text"] == "step 2 (add) reads a, whose bytes hold b"
    [location] = result["locations"]
    assert location["physicalLocation"]["artifactLocation"]["uri"] == "b.cbor"
    assert location["logicalLocations"] == [
        {"fullyQualifiedName": "a", "kind": "tensor"},
        {"fullyQualifiedName": "b", "kind": "tensor"},
    ]
    assert result["properties"]["witness"] == refuted().witness
    [nowhere] = sarif(unread())["results"]
    assert "logicalLocations" not in nowhere["locations"][0]
    assert nowhere["message"]["text"] == unread().notes[0]
    silent = Verdict("s.cbor", "UNKNOWN", 3, "for the steps it states")
    assert sarif(silent)["results"][0]["message"]["text"] == "UNKNOWN"


@pytest.mark.parametrize(("file", "uri"), [("a b#c?.cbor", "a%20b%23c%3F.cbor"), ("größe\udcff", "gr%C3%B6%C3%9Fe%FF")])
def test_sarif_names_files_by_uri(file: str, uri: str) -> None:
    [result] = sarif(refuted(file))["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == uri


def test_every_format_has_a_writer_and_every_verdict_a_level() -> None:
    assert set(formats.WRITERS) == {"json", "junit", "sarif"}
    assert {verdict.verdict for verdict in ALL} == set(formats.SARIF_LEVELS)
