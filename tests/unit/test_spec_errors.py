"""`spec/errors.md` is the registry of failure codes, row by row. spec: R5.1, R5.3"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path

from tmmu.core.errors import REGISTRY, Code, ErrorRecord, TmmuError

ROOT = Path(__file__).resolve().parents[2]


def rows(page: str) -> list[list[str]]:
    """The cells of each row of the page's table, its head left out."""
    lines = [line for line in page.splitlines() if re.match(r"\| [A-Z_]+ \|", line)]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def differences(page: str, registry: Mapping[str, Code]) -> list[str]:
    """What the page's table and the registry do not agree on; the order of the rows counts."""
    table = rows(page)
    stated = [(row[0], Code(int(row[1]), row[2], row[3], row[4], tuple(row[5].split(", ")))) for row in table]
    wrong = [name for (name, code), actual in zip(stated, registry.items(), strict=False) if (name, code) != actual]
    wrong += [f"{row[0]} has no meaning or no fix" for row in table if len(row) != 8 or not row[6] or not row[7]]
    if len(stated) != len(registry):
        wrong.append(f"{len(stated)} rows for {len(registry)} codes")
    return wrong


def page() -> str:
    return (ROOT / "spec/errors.md").read_text()


def test_the_page_lists_every_code_with_its_meaning_and_its_fix() -> None:
    assert differences(page(), REGISTRY) == []


def test_a_changed_a_missing_and_an_unexplained_code_are_noticed() -> None:
    assert differences(page().replace("| 1304 |", "| 1305 |"), REGISTRY) == ["ARENA_TOO_SMALL"]
    fewer = {name: code for name, code in REGISTRY.items() if name != "REPLAY_DIVERGENCE"}
    assert differences(page(), fewer) == [f"{len(REGISTRY)} rows for {len(fewer)} codes"]
    silent = re.sub(r"\| Fix one of them elsewhere, or plan again\. \|\n", "| |\n", page())
    assert differences(silent, REGISTRY) == ["ADDRESS_COLLISION has no meaning or no fix"]


def test_numbers_are_unique_and_lie_in_the_range_of_their_category() -> None:
    ranges = {"config": 1000, "model": 1200, "tmmu": 1300, "foundry": 1400, "trace": 1500, "mnemosyne": 1600}
    ranges |= {"runtime": 1800, "replay": 1900}
    assert len({code.numeric for code in REGISTRY.values()}) == len(REGISTRY)
    assert all(0 <= code.numeric - ranges[code.category] < 100 for code in REGISTRY.values())


def test_a_record_has_the_fields_of_the_page_and_zero_where_there_is_no_iteration_and_no_rank() -> None:
    text = " ".join(page().split("the fields of the documents", 1)[1].split("\n\n", 1)[0].split())
    assert all(re.search(rf"\b{field.name}\b", text) for field in dataclasses.fields(ErrorRecord))
    record = TmmuError("ARENA_TOO_SMALL", "it is full", arena="activations", capacity=1, required=2).record()
    assert (record.t, record.rank, record.retryable, record.privacy_class) == (0, 0, False, "INTERNAL")
    assert (record.numeric_code, record.severity, record.subsystem) == (1304, "ERROR", "tmmu")
    assert set(REGISTRY["ARENA_TOO_SMALL"].fields) <= set(record.diagnostics)
