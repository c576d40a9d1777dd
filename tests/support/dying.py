"""What a worker of a fleet does in place of judging, where a test has it die: it kills itself over some plans."""

from __future__ import annotations

import os
import signal

from proofs.verify.fleet import worker
from proofs.verify.fleet.worker import Judged, Task

POISON = "poison"


def work(task: Task) -> Judged:
    """As a worker does; a plan with `POISON` in its name kills it."""
    if POISON in task.name:
        os.kill(os.getpid(), signal.SIGKILL)
    return worker.work(task)
