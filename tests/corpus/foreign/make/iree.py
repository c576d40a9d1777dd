"""Write the IREE dumps of the corpus: `python tests/corpus/foreign/make/iree.py` where iree-base-compiler 3.13 is.

Wrong plans are made from right ones by one change of their text. spec: FP9.1 to FP9.11
"""

# ruff: noqa: E501
from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

CORPUS = Path(__file__).resolve().parents[1]
FLAGS = (
    "--iree-hal-target-backends=llvm-cpu", "--iree-llvmcpu-target-cpu=generic", "--compile-to=stream",
    "--mlir-print-ir-before=iree-stream-layout-slices", "--mlir-print-ir-after=iree-stream-layout-slices",
)  # fmt: skip
# Products and a sum, two of which can run at once.
PRODUCTS = """
module @m {
  func.func @main(%x: tensor<32x64xf32>, %w: tensor<64x128xf32>, %v: tensor<128x64xf32>) -> (tensor<32x64xf32>, tensor<32xf32>) {
    %z = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<32x128xf32>
    %i = linalg.fill ins(%z : f32) outs(%e : tensor<32x128xf32>) -> tensor<32x128xf32>
    %a = linalg.matmul ins(%x, %w : tensor<32x64xf32>, tensor<64x128xf32>) outs(%i : tensor<32x128xf32>) -> tensor<32x128xf32>
    %t = linalg.generic {indexing_maps=[affine_map<(d0,d1)->(d0,d1)>, affine_map<(d0,d1)->(d0,d1)>], iterator_types=["parallel","parallel"]} ins(%a : tensor<32x128xf32>) outs(%e : tensor<32x128xf32>) { ^bb0(%p: f32, %q: f32): %r = math.tanh %p : f32 linalg.yield %r : f32 } -> tensor<32x128xf32>
    %e2 = tensor.empty() : tensor<32x64xf32>
    %i2 = linalg.fill ins(%z : f32) outs(%e2 : tensor<32x64xf32>) -> tensor<32x64xf32>
    %b = linalg.matmul ins(%t, %v : tensor<32x128xf32>, tensor<128x64xf32>) outs(%i2 : tensor<32x64xf32>) -> tensor<32x64xf32>
    %c = linalg.matmul ins(%a, %v : tensor<32x128xf32>, tensor<128x64xf32>) outs(%b : tensor<32x64xf32>) -> tensor<32x64xf32>
    %w2 = linalg.matmul ins(%c, %w : tensor<32x64xf32>, tensor<64x128xf32>) outs(%a : tensor<32x128xf32>) -> tensor<32x128xf32>
    %c2 = linalg.matmul ins(%w2, %v : tensor<32x128xf32>, tensor<128x64xf32>) outs(%c : tensor<32x64xf32>) -> tensor<32x64xf32>
    %e3 = tensor.empty() : tensor<32xf32>
    %i3 = linalg.fill ins(%z : f32) outs(%e3 : tensor<32xf32>) -> tensor<32xf32>
    %s = linalg.generic {indexing_maps=[affine_map<(d0,d1)->(d0,d1)>, affine_map<(d0,d1)->(d0)>], iterator_types=["parallel","reduction"]} ins(%c2 : tensor<32x64xf32>) outs(%i3 : tensor<32xf32>) { ^bb0(%p: f32, %q: f32): %r = arith.addf %p, %q : f32 linalg.yield %r : f32 } -> tensor<32xf32>
    return %c2, %s : tensor<32x64xf32>, tensor<32xf32>
  }
}
"""
# Two functions, a loop, state, and a concatenation by copies.
LOOP = """
module @m {
  util.global private mutable @state : tensor<32x64xf32>
  func.func @main(%x: tensor<32x64xf32>, %w: tensor<64x64xf32>, %k: tensor<8x64xf32>) -> (tensor<32x64xf32>, tensor<40x64xf32>) {
    %z = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<32x64xf32>
    %i = linalg.fill ins(%z : f32) outs(%e : tensor<32x64xf32>) -> tensor<32x64xf32>
    %a = linalg.matmul ins(%x, %w : tensor<32x64xf32>, tensor<64x64xf32>) outs(%i : tensor<32x64xf32>) -> tensor<32x64xf32>
    %p = tensor.empty() : tensor<40x64xf32>
    %f = linalg.fill ins(%z : f32) outs(%p : tensor<40x64xf32>) -> tensor<40x64xf32>
    %s0 = tensor.insert_slice %a into %f[0, 0] [32, 64] [1, 1] : tensor<32x64xf32> into tensor<40x64xf32>
    %s1 = tensor.insert_slice %k into %s0[32, 0] [8, 64] [1, 1] : tensor<8x64xf32> into tensor<40x64xf32>
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %r = scf.for %n = %c0 to %c4 step %c1 iter_args(%t = %a) -> (tensor<32x64xf32>) {
      %b = linalg.matmul ins(%t, %w : tensor<32x64xf32>, tensor<64x64xf32>) outs(%i : tensor<32x64xf32>) -> tensor<32x64xf32>
      %b2 = linalg.matmul ins(%b, %w : tensor<32x64xf32>, tensor<64x64xf32>) outs(%t : tensor<32x64xf32>) -> tensor<32x64xf32>
      scf.yield %b2 : tensor<32x64xf32>
    }
    %o = util.global.load @state : tensor<32x64xf32>
    %q = linalg.matmul ins(%o, %w : tensor<32x64xf32>, tensor<64x64xf32>) outs(%i : tensor<32x64xf32>) -> tensor<32x64xf32>
    util.global.store %q, @state : tensor<32x64xf32>
    return %r, %s1 : tensor<32x64xf32>, tensor<40x64xf32>
  }
  func.func @other(%x: tensor<16x16xf32>) -> tensor<16x16xf32> {
    %e = tensor.empty() : tensor<16x16xf32>
    %z = arith.constant 0.0 : f32
    %i = linalg.fill ins(%z : f32) outs(%e : tensor<16x16xf32>) -> tensor<16x16xf32>
    %a = linalg.matmul ins(%x, %x : tensor<16x16xf32>, tensor<16x16xf32>) outs(%i : tensor<16x16xf32>) -> tensor<16x16xf32>
    %b = linalg.matmul ins(%a, %x : tensor<16x16xf32>, tensor<16x16xf32>) outs(%a : tensor<16x16xf32>) -> tensor<16x16xf32>
    %c = linalg.matmul ins(%b, %a : tensor<16x16xf32>, tensor<16x16xf32>) outs(%i : tensor<16x16xf32>) -> tensor<16x16xf32>
    return %c : tensor<16x16xf32>
  }
}
"""
# IREE 3.13 zeroes the three elements in the caller's own buffer: after a call, the argument has other values.
UPDATE = """
module @m {
  func.func public @main(%x: tensor<1x8xi32>) -> tensor<1x8xi32> {
    %zeros = stablehlo.constant dense<0> : tensor<1x3xi32>
    %row = stablehlo.constant dense<0> : tensor<i32>
    %column = stablehlo.constant dense<5> : tensor<i32>
    %y = stablehlo.dynamic_update_slice %x, %zeros, %row, %column : (tensor<1x8xi32>, tensor<1x3xi32>, tensor<i32>, tensor<i32>) -> tensor<1x8xi32>
    return %y : tensor<1x8xi32>
  }
}
"""
# Arguments that are storage for results, one of which is read as well.
OUTPUT = """
module @m {
  func.func @main(%x: tensor<32x64xf32>, %w: tensor<64x64xf32>, %sum: tensor<32x64xf32> {iree.abi.output = 0 : index}, %out: tensor<32x64xf32> {iree.abi.output = 1 : index}) -> (tensor<32x64xf32>, tensor<32x64xf32>) {
    %z = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<32x64xf32>
    %i = linalg.fill ins(%z : f32) outs(%e : tensor<32x64xf32>) -> tensor<32x64xf32>
    %a = linalg.matmul ins(%x, %w : tensor<32x64xf32>, tensor<64x64xf32>) outs(%sum : tensor<32x64xf32>) -> tensor<32x64xf32>
    %b = linalg.matmul ins(%x, %w : tensor<32x64xf32>, tensor<64x64xf32>) outs(%i : tensor<32x64xf32>) -> tensor<32x64xf32>
    %c = linalg.matmul ins(%b, %w : tensor<32x64xf32>, tensor<64x64xf32>) outs(%i : tensor<32x64xf32>) -> tensor<32x64xf32>
    return %a, %c : tensor<32x64xf32>, tensor<32x64xf32>
  }
}
"""
# Constants that the module computes of a file's bytes when it is loaded (finding 228).
CONSTANTS = """
module @m {
  func.func @main() -> (tensor<6x6xi32>, tensor<6x6xi32>) {
    %t = stablehlo.constant dense<2> : tensor<6x6xi32>
    %w = stablehlo.constant dense<[[3, 3, -1], [1, 1, 2], [2, -1, -2], [-1, 3, -3]]> : tensor<4x3xi32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %three = stablehlo.constant dense<3> : tensor<i32>
    %u = stablehlo.dynamic_update_slice %t, %w, %one, %three : (tensor<6x6xi32>, tensor<4x3xi32>, tensor<i32>, tensor<i32>) -> tensor<6x6xi32>
    %n = stablehlo.convert %u : (tensor<6x6xi32>) -> tensor<6x6xi8>
    %r = stablehlo.convert %n : (tensor<6x6xi8>) -> tensor<6x6xi32>
    %s = stablehlo.abs %r : tensor<6x6xi32>
    return %r, %s : tensor<6x6xi32>, tensor<6x6xi32>
  }
}
"""


def dumped(module: str, *flags: str) -> str:
    """What the compiler prints around the pass that places slices."""
    compiler = Path(sys.executable).parent / "iree-compile"
    command = [compiler, "-", *FLAGS, *flags, "-o", "/dev/null"]
    ran = subprocess.run(command, input=module, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-2000:]
    return ran.stderr


def last(text: str, pattern: str, new: str) -> str:
    """A text with its last match of a pattern changed."""
    found = list(re.finditer(pattern, text))
    assert found, pattern
    return text[: found[-1].start()] + new + text[found[-1].end() :]


if __name__ == "__main__":
    products, loop, output = dumped(PRODUCTS), dumped(LOOP), dumped(OUTPUT)
    after = products.rindex("// -----// IR Dump After")
    proved = {"products": products, "after-alone": products[after:], "loop": loop, "output": output}
    proved["constants"] = dumped(CONSTANTS, "--iree-opt-level=O3")
    # The second product takes the rest of the third's region.
    wider = r"(      \}\n)    \}\n(    stream\.cmd\.dispatch @main_dispatch_3(?:.*\n)*?    \}\n)"
    assert len(re.findall(wider, products)) == 2
    refuted = {
        "overlap": last(products, r"arith\.constant 40960", "arith.constant 16384"),
        "small": last(products, r"arith\.constant 49152", "arith.constant 32768"),
        "region": re.sub(wider, r"\1\2    }\n", products),
        "longer": products[:after] + products[after:].replace("arith.constant 8192 :", "arith.constant 16384 :"),
        "updated-argument": dumped(UPDATE),
        # The caller has given neither argument as storage.
        "not-consumed": output.replace("consume %", "%"),
        "freed": last(products, r"await\(%\d+\) => %result_13 :", "await(%6) => %result :"),
    }
    for folder, files in (("proved", proved), ("refuted", refuted)):
        for name, text in files.items():
            (CORPUS / folder / f"iree-{name}.iree").write_text(text)
