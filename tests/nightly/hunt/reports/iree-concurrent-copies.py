"""IREE: one concurrent region has the copies that write a value and the copy that reads them."""

import iree.compiler
import iree.runtime
import numpy as np

N = 1 << 22
MAIN = """
func.func @main(%x: tensor<4194432xi32>) -> tensor<4194336xi32> {
  %a = stablehlo.slice %x [64:4194368] : (tensor<4194432xi32>) -> tensor<4194304xi32>
  %b = stablehlo.slice %x [32:64] : (tensor<4194432xi32>) -> tensor<32xi32>
  %c = stablehlo.slice %x [0:32] : (tensor<4194432xi32>) -> tensor<32xi32>
  %d = stablehlo.concatenate %a, %b, %c, dim = 0 :
    (tensor<4194304xi32>, tensor<32xi32>, tensor<32xi32>) -> tensor<4194368xi32>
  %e = stablehlo.slice %d [0:4194336] : (tensor<4194368xi32>) -> tensor<4194336xi32>
  return %e : tensor<4194336xi32>
}"""


def wrong_calls(*flags: str) -> int:
    flags += ("--iree-llvmcpu-target-cpu=generic",)
    code = iree.compiler.compile_str(MAIN, input_type="stablehlo", target_backends=["llvm-cpu"], extra_args=flags)
    config = iree.runtime.Config("local-task")
    main = iree.runtime.load_vm_module(iree.runtime.VmModule.copy_buffer(config.vm_instance, code), config).main
    wrong = 0
    for call in range(200):
        x = np.arange(N + 128, dtype=np.int32) + call
        wrong += not np.array_equal(main(x).to_host(), np.concatenate([x[64 : 64 + N], x[32:64]]))
    return wrong


print("expected: wrong calls of 200:", 0)
favor = "--iree-stream-partitioning-favor=debug"
print(f"counter-test ({favor}): wrong calls of 200:", wrong_calls(favor))
print("actual: wrong calls of 200:", wrong_calls(), flush=True)
