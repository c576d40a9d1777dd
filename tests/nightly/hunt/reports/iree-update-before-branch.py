"""IREE: an update in place is scheduled before an If that reads what is updated, and one result is not written."""

import re

import iree.compiler
import iree.runtime
import numpy as np

MAIN = """
func.func @main(%flag: tensor<i1>, %x: tensor<4xf32>, %u: tensor<1xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.negate %x : tensor<4xf32>
  %s = "stablehlo.if"(%flag) ({
    stablehlo.return %n : tensor<4xf32>
  }, {
    %m = stablehlo.cosine %n : tensor<4xf32>
    stablehlo.return %m : tensor<4xf32>
  }) : (tensor<i1>) -> tensor<4xf32>
  %b = stablehlo.dynamic_update_slice %n, %u, %one : (tensor<4xf32>, tensor<1xf32>, tensor<i32>) -> tensor<4xf32>
  return %b, %s : tensor<4xf32>, tensor<4xf32>
}"""
SELECT = """%m = stablehlo.cosine %n : tensor<4xf32>
  %s = stablehlo.select %flag, %n, %m : tensor<i1>, tensor<4xf32>
"""


def results(text: str) -> list[list[float]]:
    flags = ["--iree-llvmcpu-target-cpu=generic"]
    code = iree.compiler.compile_str(text, input_type="stablehlo", target_backends=["llvm-cpu"], extra_args=flags)
    config = iree.runtime.Config("local-sync")
    main = iree.runtime.load_vm_module(iree.runtime.VmModule.copy_buffer(config.vm_instance, code), config).main
    given = [np.array(True), np.array([1, 2, 3, 4], np.float32), np.array([9], np.float32)]
    return [each.to_host().tolist() for each in main(*given)]


print("expected:", [[-1.0, 9.0, -3.0, -4.0], [-1.0, -2.0, -3.0, -4.0]])
selected = re.sub('%s = "stablehlo.if".*?-> tensor<4xf32>\n', SELECT, MAIN, flags=re.DOTALL)
print("counter-test (a select in place of the If):", results(selected))
print("actual:", results(MAIN), flush=True)
