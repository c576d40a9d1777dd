"""Write the TLA+ module that validates one path, and its run of TLC.

The lines are a constant sequence, and a variable holds the number of the next. `LogStep` takes it by the follower's
`Follow`, which conjoins an action of the module with the observations. After the last line the run stutters, if it has
ended as the log states. TLC checks for deadlock: a line that is not a step leaves a state without a successor.
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
"""The maximum number of lines for checks at every line.

TLC then checks the module's `Next` and invariants after every line, and prints the steps that are allowed. With more
lines, the invariants are checked after the last line, and only the action of each line decides.
"""

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


def make_run(path: Path, tla: File) -> Run:
    """Return the run that succeeds if every line of `path` is a step of its module, and otherwise ends in a deadlock.

    `tla` is the folder of the models. The invariants are those of the module's own model.
    """
    question = config.read_config((tla / path.folder / f"{path.module}.cfg").read_text())
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
