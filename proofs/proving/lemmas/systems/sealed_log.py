"""How many records of a sealed log are safe: the numbers of `tla/mnemosyne/SealedLog.tla`, for any of them.

A log has `length` records that the process has, and `disk` that an opening finds. `sealed_records` and TLC cover the
contents of records, and so which copies of a log an opening refuses. Here a copy has any number of records, and an
opening refuses any that has fewer than the anchor states. Phases are 0 down, 1 reading, 2 running, 3 refused.
spec: V4.9, MN5.16
"""

from __future__ import annotations

from proofs.proving.lemmas.engine.machine import Machine, MachineRule, Without
from proofs.proving.lemmas.engine.statements import Mutant, World

_ENDS = "(= phase 2) (set phase 0) (set length acked) (set durable 0)"
_KEEPS = "(=> (and (= phase 2) (= phase' 0)) (<= acked disk'))"

MACHINE = Machine(
    "sealed_log",
    "Every acknowledged record is in the anchor, everything that an anchor states is durable, and a crash keeps both.",
    "",
    """
    (phase () Int) (length () Int) (disk () Int) (durable () Int) (named () Bool)
    (renamed () Int) (anchor () Int) (acked () Int)""",
    MachineRule(
        "Init",
        "There is neither log nor anchor.",
        """(= phase 0) (= length 0) (= disk 0) (= durable 0) (not named) (= renamed 0) (= anchor 0) (= acked 0)""",
        (Mutant("a record is acknowledged before there is one", "(= acked 0)", "(= acked 1)"),
         Mutant("an anchor of a log without a name", "(= renamed 0)", "(= renamed 1)")),
    ),
    """
    ; An anchor states what was acknowledged; a newer one that is not durable yet states no less.
    (and (<= 0 acked) (<= acked anchor) (<= anchor renamed) (<= acked length))
    ; AcknowledgedIsDurable: what an anchor states is durable, with the name of the log.
    (=> (= phase 2) (and (<= renamed durable) (<= durable length)))
    (=> (< 0 renamed) named)
    ; AcknowledgedIsThere: an opening that is not refused finds it.
    (=> (= phase 1) (and (<= renamed disk) (<= length disk)))""",
    (
        MachineRule(
            "Open",
            "A log that has what the anchor states is read, and every other one refused.",
            """(any isFresh Bool) (= phase 0) (=> isFresh (<= renamed disk)) (=> isFresh (<= length disk))
            (set phase (ite isFresh 1 3))""",
            (Without("without an anchor", "(=> isFresh (<= renamed disk))"),),
        ),
        MachineRule(
            "ReadBack",
            "The next good record is read back.",
            "(= phase 1) (< length disk) (set length (+ length 1))",
            (Without("reads over the end", "(< length disk)"),),
        ),
        MachineRule(
            "Opened",
            "The rest is cut off, unless an anchor states it.",
            "(= phase 1) (<= renamed length) (set phase 2) (set durable length) (set disk 0)",
            (Without("cuts what an anchor states", "(<= renamed length)"),
             Without("is not synced", "(set durable length)")),
        ),
        MachineRule(
            "Store",
            "A record is appended.",
            "(= phase 2) (set length (+ length 1))",
            (Mutant("takes one away", "(+ length 1)", "(- length 1)"),),
        ),
        MachineRule(
            "SyncLog",
            "All records are synced.",
            "(= phase 2) (< durable length) (set durable length)",
            (Mutant("syncs too far", "(set durable length)", "(set durable (+ length 1))"),),
        ),
        MachineRule(
            "Rename",
            "A new anchor of the durable records takes its name, once the log's name is durable.",
            "(= phase 2) (= named true) (< renamed durable) (set renamed durable)",
            (Mutant("an anchor before the data", "(set renamed durable)", "(set renamed (+ durable 1))"),
             Without("an anchor before the name", "(= named true)")),
        ),
        MachineRule(
            "SyncFolder",
            "Names are durable.",
            "(= phase 2) (set named true) (set anchor renamed)",
            (Mutant("the anchor is another", "(set anchor renamed)", "(set anchor (+ renamed 1))"),),
        ),
        MachineRule(
            "Acknowledge",
            "The next record is acknowledged.",
            "(= phase 2) (< acked anchor) (set acked (+ acked 1))",
            (Without("before the anchor", "(< acked anchor)"),
             Mutant("before the folder", "(< acked anchor)", "(< acked renamed)")),
        ),
        MachineRule(
            "Crash",
            "Synced records remain, and some of the others. Names that were not durable may be lost.",
            f"""(any good Int) (any hasName Bool) (any hasAnchor Bool) {_ENDS}
            (<= durable good) (<= good length) (=> named hasName)
            (set disk (ite hasName good 0)) (set named hasName)
            (set anchor (ite hasAnchor renamed anchor)) (set renamed (ite hasAnchor renamed anchor))""",
            (Without("a sync is none", "(<= durable good)"), Without("a durable name is lost", "(=> named hasName)")),
        ),
        MachineRule(
            "Withdraw",
            "A writer that fails cuts off what no anchor states, and removes an empty log.",
            f"""(any good Int) (any isRemoved Bool) {_ENDS} (<= renamed good) (<= good length)
            (=> isRemoved (= good 0)) (set disk good) (set named (and named (not isRemoved)))""",
            (Without("withdraws what an anchor states", "(<= renamed good)"),
             Without("removes a log that has records", "(=> isRemoved (= good 0))")),
        ),
        MachineRule(
            "CrashReading",
            "A crash while the log is read changes nothing in it.",
            "(= phase 1) (set phase 0) (set length acked)",
            (Mutant("what was read counts", "(set length acked)", "(set length (- acked 1))"),),
        ),
        MachineRule(
            "Rollback",
            "A copy with any number of records is put back.",
            "(= phase 0) (any disk')",
            (Mutant("while it is read", "(= phase 0)", "(= phase 1)"),),
        ),
    ),
    World({}, 0, 3),
    step=f"""
    ; A crash leaves what was acknowledged.
    {_KEEPS}""",
    promises=(
        MachineRule(
            "what_is_opened_has_what_was_acknowledged",
            "A log that is read or appended to has every record that was acknowledged.",
            "(gives (and (=> (= phase 1) (<= acked disk)) (=> (= phase 2) (<= acked durable))))",
            (Without("a refused one is read", "(and (<= renamed disk) (<= length disk))"),
             Without("an anchor before the data", "(and (<= renamed durable) (<= durable length))")),
        ),
    ),
)  # fmt: skip
LEMMAS = MACHINE.lemmas()
