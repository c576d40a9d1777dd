"""TVM Relax: StaticPlanBlockMemory reuses a storage that one branch of an If allocates, behind the If."""

import numpy as np
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R


@I.ir_module
class Module:
    @R.function
    def main(flag: R.Tensor((), "bool"), x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        if flag:
            a = R.add(x, x)  # its storage is allocated in this branch
            y = R.multiply(a, x)
        else:
            y = R.negative(x)
        b = R.add(y, x)  # is planned into that storage
        return R.multiply(b, b)


def result(plans: bool) -> list[float]:
    with tvm.transform.PassContext(disabled_pass=[] if plans else ["StaticPlanBlockMemory"]):
        machine = relax.VirtualMachine(tvm.compile(Module, target="llvm"), tvm.cpu())
    x = np.array([1, 2, 3, 4], np.float32)
    return machine["main"](tvm.runtime.tensor(np.array(False)), tvm.runtime.tensor(x)).numpy().tolist()


print("expected:", [0.0, 0.0, 0.0, 0.0])
print("counter-test (disabled_pass=['StaticPlanBlockMemory']):", result(False), flush=True)
print("actual:", result(True), flush=True)
