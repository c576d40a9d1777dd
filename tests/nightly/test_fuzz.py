"""The fuzzer finds a seeded fault, its bounds notice what they must, and the time of readers is linear."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path
from random import Random

import numpy as np
import pytest

from proofs.proving.kernel import installed
from tests.nightly.fuzz import bounds, figures
from tests.nightly.fuzz.__main__ import replay
from tests.nightly.fuzz.bounds import ReaderTarget, file_of, run_input
from tests.nightly.fuzz.planted import PLANTED, SEED
from tests.nightly.fuzz.seeds import read_seeds, write_seeds
from tests.nightly.fuzz.stored import read_stored
from tests.nightly.fuzz.targets import BESIDE, TARGETS
from tmmu import examples
from tmmu.core.errors import TmmuError
from tmmu.core.process import explain, note_unexpected

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("seeds")
    assert set(write_seeds(folder, tmp_path_factory.mktemp("scratch"))) == set(TARGETS)
    return folder


def test_the_mutator_alone_finds_the_seeded_fault() -> None:
    """spec: RE6.1"""
    random = Random(1)
    found = [run_input(PLANTED, PLANTED.mutate(SEED, random)) for _ in range(5000)]
    assert {finding.key.split()[0] for finding in found if finding is not None} == {"TypeError"}


def test_the_fuzzer_finds_the_seeded_fault_and_it_is_replayed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """spec: RE6.1"""
    if importlib.util.find_spec("atheris") is None:
        pytest.skip("atheris is not installed: pip install -e '.[fuzz]'")  # it has no wheel for some systems
    corpus, findings = tmp_path / "corpus", tmp_path / "findings"
    corpus.mkdir()
    findings.mkdir()
    (corpus / "seed").write_bytes(SEED)
    line = [sys.executable, "-m", "tests.nightly.fuzz.worker", "planted", str(corpus), str(findings), "30", "1"]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    [record] = findings.glob("planted-*.json")
    assert json.loads(record.read_text())["key"].startswith("TypeError"), done.stderr[-2000:]
    of = figures.ReaderFigures()
    figures.add_run(of, done.stderr, 30, [record.stem])
    assert of.executions > 1000
    assert min(of.coverage, of.inputs, len(of.findings)) > 0
    assert replay(record.with_suffix(".bin")) == 1
    assert "TypeError" in capsys.readouterr().out


def refuse(_data: bytes) -> None:
    raise TmmuError("INVALID_PLAN", "no plan")


def crash(_data: bytes) -> None:
    raise KeyError("x")


def crash_and_go_on(_data: bytes) -> None:
    note_unexpected(KeyError("x"))


def crash_in_a_command(_data: bytes) -> None:
    explain(KeyError("x"))


def take_memory(_data: bytes) -> None:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10  # less than this leaves no trace
    np.ones(peak + (1 << 27), np.uint8).sum()


def take_time(_data: bytes) -> None:
    end = time.process_time() + 0.3
    while time.process_time() < end:
        pass


@pytest.mark.parametrize(
    ("read", "what"),
    [
        (refuse, None), (crash, "exception"), (crash_and_go_on, "exception"), (crash_in_a_command, "exception"),
        (take_memory, "memory"), (take_time, "slow"),
    ],
)  # fmt: skip
def test_each_bound_is_noticed(read, what, monkeypatch: pytest.MonkeyPatch) -> None:
    """spec: RE6.1, RE6.2"""
    monkeypatch.setattr(bounds, "SLOW_BASE", 0.2 if what == "slow" else 5.0)
    found = run_input(ReaderTarget("r", read, (TmmuError,), lambda data, random: data), b"1")
    assert (None if found is None else found.what) == what
    if found is not None:
        assert file_of(found).startswith("r-")


@pytest.mark.parametrize("name", TARGETS)
def test_a_seed_is_read_and_mutants_are_read_or_refused(name: str, seeds: Path) -> None:
    """Of each reader at least one seed is read without an error, and mutants of its notation are too."""
    target, random, read = TARGETS[name], Random(name), 0
    given = read_seeds(seeds, name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(60):
            data = given[number % len(given)]
            data = target.mutate(data, random) if number >= len(given) else data
            assert run_input(target, data) is None
            try:
                target.read(data)
                read += 1
            except target.refuses:
                pass
    assert read > 0 or name == "kernel-words"


ACCEPTS = """digest=$(sha256sum "$1" | cut -c1-64)
printf 'accepted accesses %s\\nslots true\\nfootprints true\\ninputs true\\nsymbolic unclaimed\\n' $digest"""


@pytest.mark.parametrize(
    ("script", "what"),
    [
        (ACCEPTS, "accepted, and the naive checker says"), ("kill -11 $$", "exit code -11"),
        ("echo yes", "its answer is not understood"), ("echo 'exception Stack_overflow' >&2; exit 2", "Stack_overflow"),
        ("echo 'Invalid_argument(\"index out of bounds\")' >&2; exit 2", None),
    ],
)  # fmt: skip
def test_a_kernel_that_accepts_a_wrong_plan_or_ends_otherwise_is_found(
    script: str, what: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec: RE6.3"""
    wrong = Path(examples.write("broken/packed-storages-overlap-by-one-byte", tmp_path / "b.cbor")[0]).read_bytes()
    program = tmp_path / "kernel"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(installed, "find_program", lambda: program)
    found = run_input(TARGETS["kernel-file"], wrong + BESIDE + bytes(8))
    assert (found is not None) == (what is not None)
    assert found is None or (what or "") in found.text


LINEAR = ("plan-text", "ir-text", "minimalloc", "vela", "arenas", "shards", "events", "tla-config", "failed-models",
          "optimum-proof", "planner-answer", "kernel-answer", "iree", "relax", "inductor", "xla")  # fmt: skip


@pytest.mark.parametrize("name", LINEAR)
def test_time_is_linear_in_repeated_lines(name: str, seeds: Path) -> None:
    """Each line of a seed in turn is there many times, and twice as often. spec: RE6.2"""
    target, data = TARGETS[name], min(read_seeds(seeds, name), key=len)
    lines = data.splitlines(keepends=True)
    for at in sorted({round(k * (len(lines) - 1) / 7) for k in range(8)}):
        times = []
        for count in (1000, 4000):
            grown = b"".join([*lines[:at], *([lines[at]] * count), *lines[at + 1 :]])
            begin = time.process_time()
            with contextlib.suppress(*target.refuses):
                target.read(grown)
            times.append(time.process_time() - begin)
        assert times[1] < 8 * times[0] + 0.5, (lines[at][:80], times)


def test_the_page_has_the_figures_of_every_reader(tmp_path: Path) -> None:
    for page in ("spec/reliability.md", "tests/nightly/fuzz/README.md"):
        text = (ROOT / page).read_text()
        assert figures.table(figures.load()) in text
    assert set(figures.load()) == set(TARGETS) == set(read_stored())
    page = tmp_path / "page.md"
    page.write_text(f"a\n{figures.MARK}\n\n| x |\n|---|\n\nb\n")
    figures.write_page({"r": figures.ReaderFigures(5, 60, 7, 2, ["r-1"])}, page)
    assert "| r | 5 | 1 | 7 | 2 | 1 |" in page.read_text()
    assert page.read_text().endswith("\nb\n")
