"""TVM Relax: DataflowUseInplaceCalls changes an argument: what it takes for a new value becomes a view later on."""

import numpy as np
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        with R.dataflow():
            c = R.strided_slice(x, (0,), (0,), (4,))
            y = R.multiply(c, c)
            R.output(y)
        return y


def argument_after_call(module: tvm.IRModule) -> list[float]:
    machine = relax.VirtualMachine(tvm.compile(module, target="llvm"), tvm.cpu())
    x = tvm.runtime.tensor(np.array([1, 2, 3, 4], np.float32))
    machine["main"](x)
    return x.numpy().tolist()


print("expected:", [1.0, 2.0, 3.0, 4.0])
print("counter-test (without the pass):", argument_after_call(Module))
print("actual:", argument_after_call(relax.transform.DataflowUseInplaceCalls()(Module)), flush=True)
