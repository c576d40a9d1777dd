"""One measurement in a process of its own: `python -m tests.benchmarks.measure WHAT N LAYOUT` prints JSON.

A fresh process makes the peak memory that of the thing measured. Seconds are wall time of the work itself, without
interpreter start and imports, but for the commands, which are timed whole. Processor seconds are those of user and
system, of this process and of all that it has started: they say on a busy machine what seconds say on an idle one.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from typing import NamedTuple

from proofs.proving.solvers.kept import end_kept
from tests.benchmarks.training import training_model


def _megabytes(who: int) -> float:
    return resource.getrusage(who).ru_maxrss / 1024


class Took(NamedTuple):
    """Seconds by the clock, and of processors."""

    seconds: float
    cpu: float


def plan(count: int, layout: str) -> Took:
    """Model in memory to plan in memory, the check apart."""
    from tmmu.planner import PlanOptions, plan_memory

    model = training_model(count)
    return _timed(lambda: plan_memory(model, options=PlanOptions(layout=layout)))


def check(count: int, layout: str) -> Took:
    """The check that `tmmu plan` makes before it writes."""
    from tmmu.planner import PlanOptions, plan_memory
    from tmmu.tasks.checking import check as checked

    model = training_model(count)
    made = plan_memory(model, options=PlanOptions(layout=layout)).plan
    return _timed(lambda: checked(made, model, is_ir=False))


def verify(count: int, layout: str) -> Took:
    """Plan file to verdict, two solver processes."""
    from proofs.verify.judge import verify as verified
    from proofs.verify.options import Options
    from tmmu.plans import file

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "plan.cbor")
        pid = os.fork()  # the planner's memory is not the verifier's
        if not pid:
            from tmmu.planner import PlanOptions, plan_memory

            file.save(plan_memory(training_model(count), options=PlanOptions(layout=layout)).plan, path)
            os._exit(0)
        os.waitpid(pid, 0)
        verdicts = []
        took = _timed(lambda: verdicts.append(verified(path, Options())))
        assert verdicts[0].verdict == "PROVED", verdicts[0]
    return took


def _timed(work: Callable[[], object]) -> Took:
    start, before = time.perf_counter(), _cpu()
    work()
    seconds = time.perf_counter() - start
    end_kept()  # what a process has taken counts when it has ended
    return Took(seconds, _cpu() - before)


def _cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


MEASURES: dict[str, Callable[[int, str], Took]] = {"plan": plan, "check": check, "verify": verify}


def main() -> None:
    """Measure and print seconds, those of processors, peak MiB of this process, and of the largest child."""
    took = MEASURES[sys.argv[1]](int(sys.argv[2]), sys.argv[3])
    own, child = _megabytes(resource.RUSAGE_SELF), _megabytes(resource.RUSAGE_CHILDREN)
    print(json.dumps({**took._asdict(), "peak_mib": own, "child_mib": child}))


if __name__ == "__main__":
    main()
