"""IREE: behind a loop that hands a value on through an optimization_barrier nothing waits for the value."""

import iree.compiler
import iree.runtime
import numpy as np

MATRIX = "tensor<512x512xf32>"
PRODUCT = f"contracting_dims = [1] x [0] : ({MATRIX}, {MATRIX}) -> {MATRIX}"
MAIN = f"""
func.func @main(%x: {MATRIX}, %y: {MATRIX}) -> {MATRIX} {{
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %a = stablehlo.dot_general %x, %x, {PRODUCT}
  %b = stablehlo.dot_general %a, %x, {PRODUCT}
  %r:2 = stablehlo.while(%i = %zero, %c = %b) : tensor<i32>, {MATRIX}
   cond {{
    %t = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  }} do {{
    %j = stablehlo.add %i, %one : tensor<i32>
    %k = stablehlo.optimization_barrier %c : {MATRIX}
    stablehlo.return %j, %k : tensor<i32>, {MATRIX}
  }}
  %z = stablehlo.add %r#1, %y : {MATRIX}
  return %z : {MATRIX}
}}"""


def wrong_calls(device: str) -> int:
    flags = ["--iree-llvmcpu-target-cpu=generic"]
    code = iree.compiler.compile_str(MAIN, input_type="stablehlo", target_backends=["llvm-cpu"], extra_args=flags)
    config = iree.runtime.Config(device)
    main = iree.runtime.load_vm_module(iree.runtime.VmModule.copy_buffer(config.vm_instance, code), config).main
    x, y = (np.roll(np.eye(512, dtype=np.float32), k, 0) for k in (1, 7))
    return sum(not np.array_equal(main(x * k, y).to_host(), x @ x @ x * k**3 + y) for k in range(1, 21))


print("expected: wrong calls of 20:", 0)
print("counter-test (local-sync, which runs one after another): wrong calls of 20:", wrong_calls("local-sync"))
print("actual: wrong calls of 20:", wrong_calls("local-task"), flush=True)
