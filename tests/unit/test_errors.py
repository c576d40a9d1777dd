"""Every refusal is one line with a code; every code has a record. spec: R5.1, R5.2, R5.3"""

from __future__ import annotations

import re
from pathlib import Path

from tmmu.core.errors import LONGEST, REGISTRY, TmmuError

ROOT = Path(__file__).resolve().parents[2]


def test_a_refusal_names_file_place_fix_and_code_in_one_line() -> None:
    error = TmmuError("INVALID_PLAN", "it is torn", file="a.cbor", place="slots", fix="mend it")
    assert str(error) == "a.cbor: slots: it is torn; mend it [INVALID_PLAN]"
    assert str(TmmuError("INVALID_PLAN", "it is torn")) == "it is torn [INVALID_PLAN]"


def test_the_file_that_was_named_first_stays() -> None:
    error = TmmuError("INVALID_PLAN", "it is torn")
    assert error.in_file("a.cbor") is error
    assert error.in_file("b.cbor").file == "a.cbor"


def test_a_hostile_name_can_neither_begin_a_line_nor_fill_the_screen() -> None:
    error = TmmuError("INVALID_PLAN", "x" * 10_000, file="a\nPROVED b", place="\x1b[31mred", fix="\udcff")
    line = str(error)
    assert line.isprintable()
    assert line.startswith(r"a\nPROVED b: \x1b[31mred: xxx")
    assert line.endswith(r"…; \udcff [INVALID_PLAN]")
    assert len(line) < LONGEST + 100


def test_every_code_has_a_record_with_the_documents_fields() -> None:
    for code_id, code in REGISTRY.items():
        record = TmmuError(code_id, "wrong", operator="UML_OS.X_v1", arena="a", size=3).record()
        assert (record.code_id, record.numeric_code, record.severity) == (code_id, code.numeric, code.severity)
        assert (record.subsystem, record.message) == (code.category, code.message)
        assert (record.failure_operator, record.diagnostics) == ("UML_OS.X_v1", {"arena": "a", "size": 3})
        assert (record.t, record.rank, record.retryable, record.privacy_class) == (0, 0, False, "INTERNAL")


def raised_codes(source: str) -> list[str]:
    """The codes with which a module makes refusals, as far as they stand there as text."""
    return re.findall(r'\bTmmuError\(\s*"(\w+)"', source)


def test_every_code_that_is_raised_stands_in_the_registry() -> None:
    sources = [path for folder in ("tmmu", "proofs") for path in (ROOT / folder).rglob("*.py")]
    raised = {code for path in sources for code in raised_codes(path.read_text())}
    assert len(raised) > 5
    assert raised <= set(REGISTRY)


def test_a_raised_code_is_seen() -> None:
    assert raised_codes('raise TmmuError("NO_CODE", "x") from TmmuError(code, "y")') == ["NO_CODE"]
