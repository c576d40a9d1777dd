"""IREE: an scf.while that returns more values than it takes ends the compiler, in ConvertToStream."""

import iree.compiler
import iree.runtime
import numpy as np

MAIN = """
func.func @main(%n: tensor<i32>, %x: tensor<4xi32>) -> tensor<4xi32> {
  %one = stablehlo.constant dense<1> : tensor<i32>
  %r:3 = stablehlo.while(%i = %n, %a = %x, %b = %x) : tensor<i32>, tensor<4xi32>, tensor<4xi32>
   cond {
    %c = stablehlo.compare GT, %one, %i : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %j = stablehlo.add %i, %one : tensor<i32>
    %d = stablehlo.add %b, %b : tensor<4xi32>
    stablehlo.return %j, %b, %d : tensor<i32>, tensor<4xi32>, tensor<4xi32>
  }
  return %r#1 : tensor<4xi32>
}"""


def result(text: str) -> object:
    flags = ["--iree-llvmcpu-target-cpu=generic"]
    try:
        code = iree.compiler.compile_str(text, input_type="stablehlo", target_backends=["llvm-cpu"], extra_args=flags)
    except iree.compiler.CompilerToolError as error:
        return "iree-compile: " + next(line for line in str(error).splitlines() if "Error code" in line)
    config = iree.runtime.Config("local-sync")
    main = iree.runtime.load_vm_module(iree.runtime.VmModule.copy_buffer(config.vm_instance, code), config).main
    return main(np.array(-1, np.int32), np.array([1, 2, 3, 4], np.int32)).to_host().tolist()


print("expected:", [2, 4, 6, 8])
print("counter-test (the body reads %a too, which has %b's value):", result(MAIN.replace("add %b, %b", "add %b, %a")))
print("actual:", result(MAIN), flush=True)
