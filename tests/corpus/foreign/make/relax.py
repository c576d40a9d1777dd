"""Write the Relax scripts of the corpus: `python tests/corpus/foreign/make/relax.py` where apache-tvm 0.27 is.

Wrong plans are made from right ones by one change of their text. spec: FP7.1 to FP7.9
"""

# ruff: noqa: N805, N812
from __future__ import annotations

from pathlib import Path
from typing import Any

import tvm
from tvm import relax
from tvm.relax.frontend import nn
from tvm.script import ir as I
from tvm.script import relax as R

CORPUS = Path(__file__).resolve().parents[1]


class Block(nn.Module):
    """A transformer's block of one head."""

    def __init__(self) -> None:
        self.before, self.after = nn.LayerNorm(64), nn.LayerNorm(64)
        self.query, self.key, self.value, self.out = (nn.Linear(64, 64) for _ in range(4))
        self.up, self.down = nn.Linear(64, 256), nn.Linear(256, 64)

    def forward(self, x: Any) -> Any:
        y = self.before(x)
        q, k, v = self.query(y), self.key(y), self.value(y)
        weights = nn.op.softmax(nn.op.matmul(q, nn.op.permute_dims(k)) * 0.125)
        x = x + self.out(nn.op.matmul(weights, v))
        return x + self.down(nn.op.gelu(self.up(self.after(x))))


@I.ir_module
class Views:
    """Casts, reshapes, tuples, an If, and a second function."""

    @R.function
    def main(x: R.Tensor((16, 64), "float32"), c: R.Tensor((), "bool")) -> R.Tensor(ndim=2, dtype="float32"):
        a = R.exp(x)
        b = R.match_cast(a, R.Tensor((16, 64), "float32"))
        t = (R.reshape(b, (32, 32)), R.sin(a))
        if c:
            d = R.tanh(t[0])
            e = R.reshape(d, (16, 64))
        else:
            f = R.cos(t[1])
            e = R.negative(f)
        return R.add(e, R.add(t[1], x))

    @R.function
    def second(x: R.Tensor((16, 64), "float32")) -> R.Tensor((16, 64), "float32"):
        return R.exp(R.tanh(R.exp(R.tanh(x))))


@I.ir_module
class Reshapes:
    """Reshapes and casts in a dataflow block, which become names of one tensor, and a call of other code."""

    @R.function
    def main(x: R.Tensor((16, 64), "float32")) -> R.Tensor(ndim=2, dtype="float32"):
        a = R.exp(x)
        with R.dataflow():
            b = R.match_cast(R.negative(a), R.Tensor((16, 64), "float32"))
            v = R.tanh(R.reshape(R.cos(b), (32, 32)))
            w = R.exp(R.reshape(v, (16, 64)))
            R.output(w)
        y = R.call_dps_packed("others.kernel", (w, a), R.Tensor((16, 64), "float32"))
        z = R.call_pure_packed("others.identity", y, ty_args=(R.Tensor((16, 64), "float32"),))
        return R.exp(R.exp(R.exp(z)))


@I.ir_module
class Bounded:
    """Shapes with a symbol that has a bound."""

    @R.function
    def main(x: R.Tensor(("n", 64), "float32")) -> R.Tensor(("n", 64), "float32"):
        R.func_attr({"tir_var_upper_bound": {"n": 128}})
        return R.exp(R.tanh(R.exp(R.tanh(R.exp(x)))))


@I.ir_module
class Bytes:
    """Elements of a byte."""

    @R.function
    def main(x: R.Tensor((64, 64), "uint8")) -> R.Tensor((64, 64), "uint8"):
        return R.add(R.multiply(R.add(R.multiply(x, x), x), x), x)


@I.ir_module
class Arm:
    """A storage that one arm alone allocates is taken again behind the If (apache/tvm#17348): run with False for `c`,
    the planned program ends the process.
    """

    @R.function
    def main(x: R.Tensor((4, 4), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((4, 4), "float32"):
        if c:
            a = R.exp(x)
            b = R.tanh(a)
        else:
            b = R.negative(x)
        d = R.sin(b)
        return R.cos(d)


def planned(module: tvm.IRModule, *, kills: bool = False, fuses: bool = True) -> str:
    """The script of a module after the default passes up to the plan; `kills`: and up to where buffers are freed."""
    steps = [relax.transform.LegalizeOps(), relax.transform.AnnotateTIROpPattern(), relax.transform.FoldConstant()]
    steps += [relax.transform.FuseOps(), relax.transform.FuseTIR()] if fuses else []
    steps += [
        relax.transform.RewriteDataflowReshape(),
        relax.transform.ToNonDataflow(), relax.transform.RemovePurityChecking(), relax.transform.CallTIRRewrite(),
        relax.transform.StaticPlanBlockMemory(),
    ]  # fmt: skip
    if kills:
        steps += [relax.transform.LowerAllocTensor(), relax.transform.KillAfterLastUse()]
    with tvm.target.Target("llvm"):
        return str(tvm.transform.Sequential(steps)(module).script())


def in_one_storage(text: str) -> str:
    """The results of both arms in one storage, where TVM gives each memory of its own."""
    storage = next(line for line in text.split("\n") if line.startswith("        storage: "))
    for name in ("alloc4", "alloc6"):
        line = next(line for line in text.split("\n") if line.strip().startswith(f"{name}:") and "builtin" in line)
        placed = line.replace("R.builtin.alloc_tensor(", "R.memory.alloc_tensor(results, 0, ")
        text = changed(text, line, placed.partition(', R.str("global")')[0] + ")")
    return changed(text, storage, storage + "\n" + storage.replace("storage:", "results:"))


def changed(text: str, old: str, new: str) -> str:
    """A text with one change; the place must be there once."""
    assert text.count(old) == 1, (text.count(old), old)
    return text.replace(old, new)


if __name__ == "__main__":
    block, _ = Block().export_tvm(spec={"forward": {"x": nn.spec.Tensor((32, 64), "float32")}})
    proved = {
        "block": planned(block),
        "block-kills": planned(block, kills=True),
        "views": planned(Views),
        "views-kills": planned(Views, kills=True),
        "bounded": planned(Bounded),
        "reshapes": planned(Reshapes, fuses=False),
        "bytes": planned(Bytes),
    }
    views, exps = proved["views"], "cls.tir_exp(gv2, alloc12)"
    arms = in_one_storage(views)
    proved["arms"] = arms
    (hoisted,) = (line for line in views.split("\n") if line.strip().startswith("alloc3:"))
    own = hoisted[4:].replace("R.memory.alloc_tensor(storage, 0, ", "R.builtin.alloc_tensor(")
    refuted = {
        "storage-of-an-arm": planned(Arm, fuses=False),
        # Over what either arm has made, while it is used.
        "over-arms": changed(arms, "alloc7: R.Tensor((16, 64), dtype=\"float32\") = R.memory.alloc_tensor(storage,",
            "alloc7: R.Tensor((16, 64), dtype=\"float32\") = R.memory.alloc_tensor(results,"),
        # One arm reads what the other one alone writes.
        "one-arm": changed(
            changed(changed(views, hoisted + "\n", ""), "        if c:\n", own + "\n        if c:\n"),
            "cls.tir_negative(f, alloc6)", "cls.tir_negative(alloc3, alloc6)"),
        # apache/tvm#20190 (mended in 0.27): a cast did not keep the storage of what it shows.
        "match-cast": changed(
            changed(views, exps, "cls.add(cast, gv2, alloc12)"),
            "        alloc11:", '        cast: R.Tensor((16, 64), dtype="float32") = R.match_cast(gv, '
            'R.Tensor((16, 64), dtype="float32"))\n        alloc11:',
        ),
        "overlap": changed(views, "alloc_tensor(storage1, 0, R.shape([16, 64]), R.dtype(\"float32\"), 0)\n"
            "        cls.tir_tanh1(gv1, ", "alloc_tensor(storage2, 0, R.shape([16, 64]), R.dtype(\"float32\"), 0)\n"
            "        cls.tir_tanh1(gv1, "),
        # The storages have the bytes of uint4, the tensors are uint8.
        "uint4": proved["bytes"].replace("R.shape([4096])", "R.shape([2048])"),
        # The plan is of 16 rows, the kernels are of 32.
        "stale": views.replace("(T.int64(16), T.int64(64))", "(T.int64(32), T.int64(64))"),
        # Nothing writes what the first kernel has made: its call is not there.
        "unwritten": changed(views, "        cls.tir_tanh1(x, alloc9)\n", ""),
    }  # fmt: skip
    for folder, files in (("proved", proved), ("refuted", refuted)):
        for name, text in files.items():
            (CORPUS / folder / f"relax-{name}.relax").write_text(text + "\n")
