"""C of a plan on an emulated Cortex-M4: outputs are the host's bit for bit, and arrays the plan's.

The program is that of the host, with its files read over semihosting. Nothing with `exp` is compared, whose newlib has
another. spec: MC2.4, MC3.2, MC3.7, MC4.3, MC4.11
"""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.support.c_linked import TOGETHER, activations, sources, written
from tests.support.c_models import saved
from tests.support.c_programs import WARNINGS, CProgram, drawn_inputs, planned
from tmmu import examples
from tmmu.cli.entry import run as tmmu
from tmmu.mico.integers import quantize_example

BOARD = Path(__file__).parents[1] / "support/cortex_m"
CPU = ("-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16")
FLAGS = (*WARNINGS, "-O2", "-ffp-contract=off", "-DTMMU_SEPARATE_ROUNDING")
QEMU = ("qemu-system-arm", "-M", "mps2-an386", "-nographic", "-monitor", "none", "-serial", "none")
MISSING = [tool for tool in ("gcc", "arm-none-eabi-gcc", "qemu-system-arm") if shutil.which(tool) is None]

pytestmark = pytest.mark.skipif(  # no package of Python brings these tools
    bool(MISSING),
    reason=f"{', '.join(MISSING)} is not installed: apt-get install --no-install-recommends gcc-arm-none-eabi "
    "libnewlib-arm-none-eabi qemu-system-arm",
)


def built(folder: Path, sources: Iterable[Path | str], *flags: str) -> Path:
    """The program for the board; the linker's map is beside it."""
    command = ["arm-none-eabi-gcc", *CPU, *FLAGS, *flags, "--specs=rdimon.specs", "-T", str(BOARD / "board.ld"),
               "-Wl,-Map=program.map", "-o", "program.elf", *map(str, sources), str(BOARD / "vectors.c"),
               "-lm"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "program.elf"


def on_board(program: Path, *arguments: str) -> str:
    """What the emulated board prints; its files are those of the program's folder."""
    given = ",".join(f"arg={each}" for each in ("program", *arguments))
    command = [*QEMU, "-semihosting-config", f"enable=on,target=native,{given}", "-kernel", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=program.parent, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def arrays(program: Path, names: str) -> dict[str, int]:
    """The bytes of each array of these names in a program."""
    command = ["arm-none-eabi-nm", "-S", str(program)]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {name: int(size, 16) for size, name in re.findall(rf"^\w+ (\w+) [bBdD] ({names})$", listed, re.M)}


@pytest.mark.parametrize(("layout", "bits"), [("packed", 32), ("slots", 32), ("pools", 32), ("packed", 8)])
def test_lenet_computes_on_the_board_what_it_computes_on_the_host(layout: str, bits: int, tmp_path: Path) -> None:
    path = tmp_path / "lenet.onnx"
    examples.write("mico-lenet", path, 1, convert=partial(quantize_example, seed=1) if bits == 8 else None)
    plan = planned(path, layout)
    made = CProgram(plan, path, tmp_path / "c", memory="static")
    inputs = drawn_inputs(onnx.load(path))
    program = made.build("gcc", FLAGS)
    assert made.execute(program, inputs).returncode == 0
    on_host = (made.folder / "outputs").read_bytes()
    assert len(set(np.frombuffer(on_host, np.float32))) > 1
    for_board = built(made.folder, sorted(made.folder.glob("*.c")))
    assert on_board(for_board, "inputs", "outputs") == ""
    assert (made.folder / "outputs").read_bytes() == on_host
    assert sum(arrays(for_board, r"memory_pool_\d+").values()) == activations(plan)


def test_two_models_take_turns_on_the_board_in_the_memory_of_the_larger(tmp_path: Path) -> None:
    """Both write what they write alone on the host, in one array, with constants in flash. spec: MC10.3, MC10.8"""
    alone, needed = {}, 0
    for name in ("lenet", "mlp"):
        path = saved(name, tmp_path)
        plan, inputs = planned(path), drawn_inputs(onnx.load(path))
        made = CProgram(plan, path, tmp_path / f"alone-{name}")
        assert made.execute(made.build("gcc", FLAGS), inputs).returncode == 0
        alone[name] = (made.folder / "outputs").read_bytes()
        (tmp_path / f"{name}.in").write_bytes((made.folder / "inputs").read_bytes())
        written(path, tmp_path / name, name)
        needed = max(needed, activations(plan))
    (tmp_path / "together.c").write_text(TOGETHER)
    folders = [tmp_path / name for name in alone]
    program = built(tmp_path, ["together.c", *sources(folders)], *(f"-I{folder}" for folder in folders))
    assert on_board(program) == f"{needed} 1 1 1 1 1"
    assert arrays(program, "memory") == {"memory": needed}
    for name, turn in itertools.product(alone, "01"):
        assert (tmp_path / f"{name}.{turn}").read_bytes() == alone[name]


def test_a_plan_set_takes_turns_on_the_board(tmp_path: Path) -> None:
    """The programs of a set write what each writes alone on the host, in the memory of the larger. spec: MC11.6"""
    alone, given, needed = {}, {}, 0
    for name in ("lenet", "mlp"):
        path = saved(name, tmp_path)
        plan, inputs = planned(path), drawn_inputs(onnx.load(path))
        made = CProgram(plan, path, tmp_path / f"alone-{name}")
        assert made.execute(made.build("gcc", FLAGS), inputs).returncode == 0
        alone[name], given[name] = ((made.folder / each).read_bytes() for each in ("outputs", "inputs"))
        needed = max(needed, activations(plan))
    paths = [str(tmp_path / f"{name}.onnx") for name in alone]
    assert tmmu(["plan", *paths, "--one-memory", "-q", "-o", str(tmp_path / "set")]) == 0
    models = [flag for path in paths for flag in ("--model", path)]
    command = ["codegen", str(tmp_path / "set"), *models, "--prefix", "both", "--static", "-o", str(tmp_path / "c")]
    assert tmmu(command) == 0
    program = built(tmp_path / "c", sorted((tmp_path / "c").glob("*.c")))
    calls = ["lenet", "mlp", "mlp", "lenet"]
    (tmp_path / "c" / "inputs").write_bytes(b"".join(given[name] for name in calls))
    assert on_board(program, ",,".join(calls), "inputs", "outputs") == ""  # a comma in an option of QEMU is doubled
    assert (tmp_path / "c" / "outputs").read_bytes() == b"".join(alone[name] for name in calls)
    assert arrays(program, r"memory_pool_\d+") == {"memory_pool_0": needed}
