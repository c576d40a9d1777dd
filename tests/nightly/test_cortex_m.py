"""C of a plan on an emulated Cortex-M4: LeNet's output is the host's bit for bit, and its arrays are the plan's.

The program is that of the host, with its files read over semihosting. Nothing with `exp` is compared, whose newlib has
another. spec: MC2.4, MC3.2, MC3.7, MC4.3
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.support.c_models import saved
from tests.support.c_programs import WARNINGS, CProgram, drawn_inputs, planned

BOARD = Path(__file__).parents[1] / "support/cortex_m"
CPU = ("-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16")
FLAGS = (*WARNINGS, "-O2", "-ffp-contract=off")
QEMU = ("qemu-system-arm", "-M", "mps2-an386", "-nographic", "-monitor", "none", "-serial", "none")
MISSING = [tool for tool in ("gcc", "arm-none-eabi-gcc", "qemu-system-arm") if shutil.which(tool) is None]

pytestmark = pytest.mark.skipif(  # no package of Python brings these tools
    bool(MISSING),
    reason=f"{', '.join(MISSING)} is not installed: apt-get install --no-install-recommends gcc-arm-none-eabi "
    "libnewlib-arm-none-eabi qemu-system-arm",
)


def built(made: CProgram) -> Path:
    """The program for the board; the linker's map stands beside it."""
    sources = [*sorted(made.folder.glob("*.c")), BOARD / "vectors.c"]
    command = ["arm-none-eabi-gcc", *CPU, *FLAGS, "--specs=rdimon.specs", "-T", str(BOARD / "board.ld"),
               "-Wl,-Map=program.map", "-o", "program.elf", *map(str, sources), "-lm"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=made.folder)
    assert done.returncode == 0, done.stderr
    return made.folder / "program.elf"


def on_board(made: CProgram, program: Path, inputs: bytes) -> bytes:
    """What the emulated board writes."""
    (made.folder / "inputs").write_bytes(inputs)
    given = ",".join(f"arg={each}" for each in ("program", "inputs", "outputs"))
    command = [*QEMU, "-semihosting-config", f"enable=on,target=native,{given}", "-kernel", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=made.folder, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return (made.folder / "outputs").read_bytes()


def pools(made: CProgram) -> dict[str, int]:
    """The bytes of each of the plan's arrays in the program."""
    command = ["arm-none-eabi-nm", "-S", "program.elf"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True, cwd=made.folder).stdout
    return {name: int(size, 16) for size, name in re.findall(r"^\w+ (\w+) [bBdD] (memory_pool_\d+)$", listed, re.M)}


@pytest.mark.parametrize("layout", ["packed", "slots", "pools"])
def test_lenet_computes_on_the_board_what_it_computes_on_the_host(layout: str, tmp_path: Path) -> None:
    path = saved("lenet", tmp_path)
    plan = planned(path, layout)
    made = CProgram(plan, path, tmp_path / "c", static=True)
    inputs = drawn_inputs(onnx.load(path))
    program = made.build("gcc", FLAGS)
    assert made.execute(program, inputs).returncode == 0
    on_host = (made.folder / "outputs").read_bytes()
    assert len(set(np.frombuffer(on_host, np.float32))) > 1
    on_board_too = on_board(made, built(made), b"".join(array.tobytes() for array in inputs.values()))
    assert on_board_too == on_host
    promised = {arena.name: usage.footprint for arena, usage in zip(plan.allocation.arenas, plan.usage, strict=True)}
    assert sum(pools(made).values()) == promised["activations"]
