"""IREE: an update behind an optimization_barrier is made in the bytes of the barrier's operand, which is returned."""

import iree.compiler
import iree.runtime
import numpy as np

MAIN = """
func.func @main(%x: tensor<4xf32>, %u: tensor<1xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.negate %x : tensor<4xf32>
  %k = stablehlo.optimization_barrier %n : tensor<4xf32>
  %b = stablehlo.dynamic_update_slice %k, %u, %one : (tensor<4xf32>, tensor<1xf32>, tensor<i32>) -> tensor<4xf32>
  return %n, %b : tensor<4xf32>, tensor<4xf32>
}"""


def results(text: str) -> list[list[float]]:
    flags = ["--iree-llvmcpu-target-cpu=generic"]
    code = iree.compiler.compile_str(text, input_type="stablehlo", target_backends=["llvm-cpu"], extra_args=flags)
    config = iree.runtime.Config("local-sync")
    main = iree.runtime.load_vm_module(iree.runtime.VmModule.copy_buffer(config.vm_instance, code), config).main
    return [each.to_host().tolist() for each in main(np.array([1, 2, 3, 4], np.float32), np.array([9], np.float32))]


print("expected:", [[-1.0, -2.0, -3.0, -4.0], [-1.0, 9.0, -3.0, -4.0]])
print("counter-test (the update reads the barrier's operand):", results(MAIN.replace("slice %k", "slice %n")))
print("actual:", results(MAIN), flush=True)
