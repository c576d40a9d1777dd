"""The TLA+ module that follows one path, and the run of TLC that it is for.

The lines are a constant sequence; a variable holds the number of the next. `LogStep` takes it by the follower's
`Follow`, which conjoins an action of the module with what was observed. After the last line the run stands still, where
it has ended as the log states, and TLC looks for deadlock: a line that is no step leaves a state without a successor.
"""

from __future__ import annotations

from pathlib import Path as File

from proofs.model_check import config
from proofs.model_check.config import Config
from proofs.model_check.following.lines import Path
from proofs.model_check.manifest import SUCCESS, Run

ROOT = "Followed"
STEPS = "StepsOfTheModule"
AT_EACH = 400
"""Up to this many lines TLC checks the module's `Next` and invariants after every line, and prints what would have been
allowed. Beyond it the invariants are checked after the last line, and the action of each line alone decides."""

TEMPLATE = """---- MODULE {root} ----
EXTENDS Follow{module}, Sequences, TLC
VARIABLE line
LogLines == <<
{lines}
>>
LogEnd == {end}
LogHasEnd == {has_end}
LogInit == /\\ line = 1
{given}           /\\ FollowInit
LogStep == /\\ line <= Len(LogLines)
           /\\ Follow(LogLines[line])
           /\\ line' = line + 1
LogRest == /\\ line > Len(LogLines)
           /\\ LogHasEnd => Ends(LogEnd)
           /\\ UNCHANGED <<state, line>>
LogStuck == /\\ {prints_allowed}
            /\\ ~ENABLED Follow(LogLines[line])
            /\\ PrintT(<<"allowed", Allowed>>)
            /\\ FALSE
            /\\ UNCHANGED <<state, line>>
LogSpec == LogInit /\\ [][LogStep \\/ LogRest \\/ LogStuck]_<<state, line>>
{steps} == [][ModuleNext]_<<state, line>>
LogDue == {due}
{invariants}
====
"""


def run_of(path: Path, tla: File) -> Run:
    """The run that succeeds if every line of `path` is a step of its module, and else ends in a deadlock.

    `tla` is the folder of the models. The invariants are those of the module's own model.
    """
    question = config.read((tla / path.folder / f"{path.module}.cfg").read_text())
    is_short = len(path.lines) <= AT_EACH
    text = TEMPLATE.format(
        root=ROOT,
        module=path.module,
        lines=",\n".join(f"  {line.record}" for line in path.lines),
        has_end="FALSE" if path.end is None else "TRUE",
        end="[given |-> FALSE]" if path.end is None else path.end.record,
        given="".join(f"           /\\ {name} = {value}\n" for name, value in path.given.items()),
        steps=STEPS,
        due="TRUE" if is_short else "line > Len(LogLines)",
        prints_allowed="line <= Len(LogLines)" if is_short else "FALSE",
        invariants="\n".join(f"After{name} == LogDue => {name}" for name in question.invariants),
    )
    follower = f"Follow{path.module}.tla"
    return Run(
        name=path.module,
        module=path.module,
        kind="followed",
        folder=tla / path.folder,
        root=ROOT,
        config=Config(
            "LogSpec",
            tuple(f"{name} = {value}" for name, value in path.constants.items()),
            tuple(f"After{name}" for name in question.invariants),
            (STEPS,) if is_short else (),
            deadlock=True,
        ),
        expected=SUCCESS,
        distinct_states=len(path.lines) + 1,
        depth=len(path.lines) + 1,
        files=((follower, (tla / "traces" / follower).read_text()), (f"{ROOT}.tla", text)),
    )
