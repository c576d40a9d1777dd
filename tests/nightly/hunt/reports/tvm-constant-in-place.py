"""TVM Relax: DataflowUseInplaceCalls computes a product in the bytes of a constant, which the next call reads."""

import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R


@I.ir_module
class Module:
    @R.function
    def main() -> R.Tensor((4,), "float32"):
        with R.dataflow():
            c = R.const([2.0, 3.0, 4.0, 5.0], "float32")
            y = R.multiply(c, c)
            R.output(y)
        return y


def three_calls(module: tvm.IRModule) -> list[list[float]]:
    machine = relax.VirtualMachine(tvm.compile(module, target="llvm"), tvm.cpu())
    return [machine["main"]().numpy().tolist() for _ in range(3)]


print("expected:", [[4.0, 9.0, 16.0, 25.0]] * 3)
print("counter-test (without the pass):", three_calls(Module))
print("actual:", three_calls(relax.transform.DataflowUseInplaceCalls()(Module)), flush=True)
