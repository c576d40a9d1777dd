"""Nothing is admitted: no test left out, no line left uncovered, no proof left open, without a reason on its line.

The words are put together here, so that this file does not admit anything itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

FOLDERS = ("tmmu", "proofs", "tests", "tla", "spec", ".github", ".ci")
SUFFIXES = {".py", ".tla", ".cfg", ".v", ".ml", ".cddl", ".sh", ".yml", ".toml"}

LEFT_OUT = "|".join(
    [
        r"pytest\." + r"(?:mark\.)?" + "(?:skip|xfail)", "import" + "orskip", r"unittest\." + "skip", "no " + "cover",
        "TO" + "DO", "FIX" + "ME", "XX" + "X", "Ad" + "mitted", "Ax" + "iom", r"^\s*ad" + r"mit\.", "OM" + "ITTED",
    ]
)  # fmt: skip
SILENCED = "no" + r"qa\b|type: " + "ignore"
REASON = re.compile(r"(?:#|\\\*|\(\*|;)\s*(?:\S+\s+){2,}\S+")
"""A comment of three words or more, after the word that admits."""


def sources(root: Path) -> Iterator[Path]:
    """Every file in which something could be admitted."""
    named = [root / "Makefile", root / ".ci/run"]
    yield from (path for path in named if path.is_file())
    yield from (path for path in sorted(root.glob("*")) if path.suffix in SUFFIXES)
    for folder in FOLDERS:
        yield from (path for path in sorted((root / folder).rglob("*")) if path.suffix in SUFFIXES)


def admitted(root: Path, words: str, folders: tuple[str, ...] = FOLDERS) -> list[tuple[str, bool]]:
    """Each line that admits something, and whether it gives a reason."""
    found = []
    for path in sources(root):
        place = path.relative_to(root)
        if place.parts[0] not in folders and len(place.parts) > 1:
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if (word := re.search(words, line)) is not None:
                found.append((f"{place}:{number}", REASON.search(line, word.end()) is not None))
    return found


def unreasoned(root: Path, words: str, folders: tuple[str, ...] = FOLDERS) -> list[str]:
    return [place for place, reasoned in admitted(root, words, folders) if not reasoned]


def test_nothing_is_left_out_without_a_reason() -> None:
    assert unreasoned(ROOT, LEFT_OUT) == []


MAY_LEAVE_OUT = {
    "tests/integration/test_mico_document.py", "tests/integration/test_report_page.py",
    "tests/integration/test_trace_jax.py",
    "tests/integration/test_trace_torch.py", "tests/nightly/test_codegen_models.py",
    "tests/nightly/test_cortex_m.py", "tests/nightly/test_example_weights.py", "tests/nightly/test_llama_oracle.py",
    "tests/nightly/test_onnxruntime_graphs.py",
    "tests/nightly/test_sizes_of_onnxruntime.py", "tests/nightly/test_theory.py",
    "tests/unit/test_foundry_ggml.py", "tests/unit/test_export_ggml.py", "tests/unit/test_simulator_onnxruntime.py",
    "tests/unit/test_mnemosyne_replacement.py", "tests/unit/test_mnemosyne_access.py",
    "tests/unit/test_foundry_chat.py", "tests/unit/test_foundry_kinds.py",
    "tests/property/test_mnemosyne_replacement.py", "tests/corpus/test_attention_trace.py",
    "tests/nightly/test_minilm.py", "tests/nightly/test_screenshots.py", "tests/nightly/test_site.py",
    "tests/nightly/test_foreign_inductor.py", "tests/nightly/test_foreign_jax.py", "tests/nightly/test_foreign_out.py",
    "tests/nightly/test_their_ci.py",
    "tests/nightly/test_optimum_veripb.py",
    "tmmu/testing/plugin.py",
    "tests/nightly/test_fuzz.py", "tests/nightly/test_hunt.py", "tests/nightly/test_other_planners.py",
    "tests/integration/test_faults.py", "tests/integration/test_runtime_crashes.py",
    "tests/integration/test_mnemosyne_crashes.py", "tests/nightly/test_mnemosyne_kills.py",
    "tests/nightly/test_every_fault.py",
    "tests/nightly/test_ranges.py", "tests/nightly/test_wheel.py", "tests/support/tools.py",
    "tests/nightly/test_masked_tools.py",
}  # fmt: skip
"""Where a test is left out without an extra of gigabytes, another's runtime, a model, cargo, a wheel, the kernel,
or on a system whose calls cannot be watched."""


def test_nothing_is_left_out_but_what_is_listed() -> None:
    assert {place.partition(":")[0] for place, _ in admitted(ROOT, LEFT_OUT)} == MAY_LEAVE_OUT


def test_no_warning_of_a_tool_is_silenced_without_a_reason() -> None:
    assert unreasoned(ROOT, SILENCED, ("tmmu", "proofs")) == []


def test_the_files_are_found() -> None:
    names = {path.relative_to(ROOT).as_posix() for path in sources(ROOT)}
    assert {
        "Makefile",
        "pyproject.toml",
        "proofs/definition/checker/execute.py",
        "tests/unit/test_no_admitted.py",
        ".ci/run",
    } <= names


def test_an_omission_is_seen_and_a_reason_is_accepted(tmp_path: Path) -> None:
    marks = [
        "@pytest.mark." + "skip", "@pytest.mark." + "xfail(strict=True)", "pytest." + "skip('later')",
        "onnx = pytest.import" + "orskip('onnx')", "pass  # pragma: no " + "cover", "x = 1  # TO" + "DO: think",
        "@unittest." + "skipIf(True, '')", "# FIX" + "ME",
    ]  # fmt: skip
    proofs = ["Ad" + "mitted.", "Ax" + "iom choice : False.", "  ad" + "mit."]
    (tmp_path / "tests").mkdir()
    (tmp_path / "proofs/proving/kernel").mkdir(parents=True)
    (tmp_path / "tla").mkdir()
    (tmp_path / "tests/test_a.py").write_text("\n".join(marks))
    (tmp_path / "proofs/proving/kernel/A.v").write_text("\n".join(proofs))
    (tmp_path / "tla/A.tla").write_text("PROOF OM" + "ITTED")
    assert len(unreasoned(tmp_path, LEFT_OUT)) == len(marks) + len(proofs) + 1
    (tmp_path / "tests/test_a.py").write_text("\n".join(f"{mark}  # the wheel has no such file" for mark in marks))
    (tmp_path / "proofs/proving/kernel/A.v").write_text("\n".join(f"{proof} (* the base of it *)" for proof in proofs))
    (tmp_path / "tla/A.tla").write_text("PROOF OM" + r"ITTED \* shown by TLC")
    assert unreasoned(tmp_path, LEFT_OUT) == []
    assert len(admitted(tmp_path, LEFT_OUT)) == len(marks) + len(proofs) + 1


def test_ordinary_words_admit_nothing(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_a.py").write_text("right(skip())\nno_coverage = admittance = 'axiomatic'\nxfail_strict = 1")
    assert admitted(tmp_path, LEFT_OUT) == []


def test_a_silenced_warning_is_seen(tmp_path: Path) -> None:
    (tmp_path / "tmmu").mkdir()
    bad = ["x = 1  # no" + "qa", "x = 1  # no" + "qa: E501", "x = 1  # type: " + "ignore[misc]  # it"]
    (tmp_path / "tmmu/a.py").write_text("\n".join(bad))
    assert len(unreasoned(tmp_path, SILENCED)) == 3
    (tmp_path / "tmmu/a.py").write_text("x = 1  # type: " + "ignore[misc]  # both are pipes")
    assert unreasoned(tmp_path, SILENCED) == []
