"""IREE: an update of an argument is made in the caller's buffer, which a reshape of the argument shows."""

import iree.compiler
import iree.runtime
import numpy as np

MAIN = """
func.func @main(%x: tensor<4xf32>, %u: tensor<1xf32>) -> (tensor<2x2xf32>, tensor<4xf32>) {
  %one = stablehlo.constant dense<1> : tensor<i32>
  %seen = stablehlo.reshape %x : (tensor<4xf32>) -> tensor<2x2xf32>
  %y = stablehlo.dynamic_update_slice %x, %u, %one : (tensor<4xf32>, tensor<1xf32>, tensor<i32>) -> tensor<4xf32>
  return %seen, %y : tensor<2x2xf32>, tensor<4xf32>
}"""
READ_TWICE = MAIN.replace("return %seen, %y", "%z = stablehlo.add %x, %y : tensor<4xf32>\n  return %seen, %z")


def seen_and_argument(text: str) -> list[object]:
    flags = ["--iree-llvmcpu-target-cpu=generic"]
    code = iree.compiler.compile_str(text, input_type="stablehlo", target_backends=["llvm-cpu"], extra_args=flags)
    config = iree.runtime.Config("local-sync")
    main = iree.runtime.load_vm_module(iree.runtime.VmModule.copy_buffer(config.vm_instance, code), config).main
    x = iree.runtime.asdevicearray(config.device, np.array([1, 2, 3, 4], np.float32))
    seen, _ = main(x, np.array([9], np.float32))
    after = iree.runtime.DeviceArray(config.device, x._buffer_view)
    return [seen.to_host().tolist(), after.to_host().tolist()]


print("expected:", [[[1.0, 2.0], [3.0, 4.0]], [1.0, 2.0, 3.0, 4.0]])
print("counter-test (the argument has a second reader):", seen_and_argument(READ_TWICE))
print("actual:", seen_and_argument(MAIN), flush=True)
