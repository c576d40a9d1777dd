"""A donated tensor of a set in whose place nothing is returned is named when the set is planned. spec: PS3.12"""

from __future__ import annotations

from pathlib import Path

import pytest

from tmmu.cli.entry import run

FILL = """tmmu-ir-text 1
tensor x f32 16x16 input
tensor kv f32 16x16 output
node fill my::Fill x -> kv
"""
STEP = """tmmu-ir-text 1
tensor t f32 1x16 input
tensor kv f32 16x16 input
tensor kv1 f32 16x16 output
tensor y f32 1x16 output
node put my::Put t kv -> kv1
node last my::Attend t kv1 -> y
"""
IN_PLACE = STEP.replace("-> kv1", "-> kv1 inplace kv1 kv")
SAID = (
    "  donated, but only read: step:kv; the next call finds the old value, unless you add --share step:kv=step:OUTPUT"
)


@pytest.mark.parametrize(
    ("models", "donated", "said"),
    [
        ({"fill": FILL, "step": STEP}, ("kv",), SAID),
        ({"fill": FILL, "step": STEP}, ("step:k*",), SAID),
        ({"fill": FILL, "step": STEP}, (), ""),
        ({"fill": FILL, "step": IN_PLACE}, ("kv",), ""),
        ({"step": STEP, "again": STEP}, ("kv",), SAID.replace("step:kv;", "step:kv, again:kv;")),
        ({"step": STEP, "again": IN_PLACE}, ("kv",), SAID),
    ],
)
def test_a_donated_tensor_that_is_only_read_is_named(
    models: dict[str, str], donated: tuple[str, ...], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [tmp_path / f"{name}.ir.txt" for name in models]
    for path, text in zip(paths, models.values(), strict=True):
        path.write_text(text)
    flags = [f"--donate={name}" for name in donated]
    assert run(["plan", *map(str, paths), "--share", "kv", *flags, "-o", str(tmp_path / "set")]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "only read" in line]
    assert lines == [said] * bool(said)
