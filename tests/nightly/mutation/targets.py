"""Which tests have to notice a change of which file: the fastest and the most telling first.

A change counts as noticed by the first test that fails. Files that are not listed are held to the whole of
`tests/unit`. `tests/nightly/test_mutation.py` keeps what is named here existing.
"""

from __future__ import annotations

COVER, PROPERTIES = "tests/unit/test_", "tests/property/test_"
CORPUS = f"{COVER}broken_corpus.py"
NAIVE = (
    f"{COVER}checker.py", f"{COVER}mutations.py", f"{PROPERTIES}brute_force.py", f"{PROPERTIES}corruptions.py", CORPUS,
)  # fmt: skip
STRUCTURE = (f"{COVER}structure.py", f"{COVER}checker.py", CORPUS)
ROWS = (f"{COVER}obligations_refuse.py", f"{COVER}obligations_rows.py", f"{COVER}obligations_agree.py", CORPUS)
EDGES = (f"{COVER}layouts_commands.py", f"{PROPERTIES}layouts.py")
VERIFY = (f"{COVER}verify_plan.py", f"{COVER}verify_command.py")
ARENAS = (f"{COVER}arenas_commands.py", f"{PROPERTIES}arenas.py", f"{COVER}structure.py", f"{COVER}planner_arenas.py")
ENVELOPE = (f"{COVER}envelope_verify.py", f"{PROPERTIES}envelopes.py")
PROGRAM = "tests/integration/kernel/test_program.py"
KERNEL = (f"{COVER}kernel.py",)
READERS = (
    f"{COVER}readers_ir.py", f"{COVER}readers_onnx.py", f"{COVER}readers_compare.py", f"{COVER}readers_sharing.py",
    f"{COVER}readers_operators.py", f"{PROPERTIES}model_files.py",
)  # fmt: skip
TRAINING = (f"{COVER}training_verify.py", f"{COVER}training_modes.py")
SHARDING = (
    f"{COVER}sharding_plans.py", f"{COVER}sharding_ranks.py", f"{COVER}sharding_commands.py",
    f"{PROPERTIES}sharding.py",
)  # fmt: skip
TOGETHER = (f"{COVER}sharding_together.py", f"{COVER}sharding_ranks.py", f"{COVER}sharding_commands.py")
GOLDEN = "tests/unit/test_golden_traces.py"
PLANNER = ("tests/unit/test_planner_plan.py", "tests/property/test_planned_plans.py", GOLDEN)
LAYOUTS = (f"{COVER}planner_addresses.py", f"{COVER}layouts_placing.py", f"{PROPERTIES}layouts.py")
PREFIX = "tests/unit/test_planner_"
HOMES = (
    f"{PREFIX}divisions.py",
    f"{PREFIX}choosing.py",
    f"{PREFIX}placing.py",
    f"{PREFIX}arenas.py",
    f"{COVER}arenas_commands.py",
    f"{PREFIX}plan.py",
    f"{COVER}every_failure_code.py",
    f"{PROPERTIES}arenas.py",
)
ORDERS = (
    f"{COVER}order_search.py",
    f"{PROPERTIES}order_search.py",
    f"{COVER}order_memory.py",
    f"{PROPERTIES}order.py",
)
REWRITING = (f"{COVER}remat_rewrite.py", f"{COVER}remat_strategies.py")
JOINT = (
    f"{COVER}training_expand.py",
    f"{COVER}training_modes.py",
    f"{COVER}training_verify.py",
)
FILES = (
    f"{COVER}plan_columns.py",
    f"{COVER}metrics.py",
    f"{PREFIX}plan.py",
    f"{COVER}plan_file.py",
)
SIZES = (
    f"{COVER}envelope_expressions.py",
    f"{COVER}envelope_shapes.py",
    f"{COVER}envelope_verify.py",
)

TARGETS: dict[str, tuple[str, ...]] = {
    "proofs/checker/execute.py": NAIVE,
    "proofs/checker/structure.py": STRUCTURE,
    "proofs/checker/memory.py": (f"{COVER}memory.py", *NAIVE),
    "proofs/checker/program.py": (f"{COVER}proof_program.py", *NAIVE),
    "proofs/checker/claims.py": (f"{COVER}claims.py", f"{COVER}layouts_hashed.py", CORPUS),
    "proofs/readers/donation.py": (*VERIFY, f"{COVER}sharding_commands.py"),
    "proofs/readers/patterns.py": (*ARENAS, f"{COVER}sharding_commands.py"),
    **{
        f"proofs/obligations/{name}.py": ROWS
        for name in (
            "alignment", "capacity", "contents", "context", "levels", "lifetimes_cover_accesses", "must_not_alias",
            "no_live_overlap", "peak", "sharing_is_sound", "slot_count", "tensors_within_storages",
        )
    },
    **{
        f"proofs/obligations/{name}.py": (f"{COVER}obligations_rows.py", *ROWS)
        for name in ("definition", "discharge", "rows")
    },
    "proofs/obligations/__init__.py": (f"{COVER}obligations_outcomes.py", *ROWS, f"{COVER}envelope_verify.py"),
    "proofs/obligations/by_edges.py": (f"{COVER}edges.py", *ROWS, *EDGES),
    "proofs/obligations/sizes_over_envelope.py": ENVELOPE,
    "proofs/certificate/edges.py": (f"{COVER}edges.py", *ROWS, *EDGES),
    "proofs/certificate/slots.py": ROWS,
    "proofs/checker/layouts.py": (f"{COVER}claims.py", *ROWS, *EDGES),
    "proofs/checker/envelope.py": ENVELOPE,
    "proofs/checker/arenas.py": (f"{COVER}homes.py", *ARENAS),
    "proofs/verify/verdict.py": (*VERIFY, f"{COVER}formats.py"),
    "proofs/verify/judge.py": VERIFY,
    "proofs/verify/formats.py": (f"{COVER}formats.py", f"{COVER}verify_command.py", f"{COVER}sharding_commands.py"),
    "tmmu/core/flags.py": (f"{COVER}flags.py", f"{COVER}verify_command.py", f"{COVER}cli_plan.py"),
    "proofs/verify/command.py": (*VERIFY, f"{COVER}second_opinion.py", f"{COVER}sharding_commands.py"),
    "tmmu/core/process.py": (f"{COVER}verify_command.py", f"{COVER}prove_lemmas.py"),
    **{f"proofs/solvers/{name}.py": (f"{COVER}solvers.py",) for name in ("__init__", "child")},
    "proofs/solvers/process.py": (f"{COVER}solvers.py", f"{COVER}second_opinion.py"),
    "proofs/lemmas/unfold.py": (f"{COVER}unfold.py", f"{COVER}checked_proofs.py", f"{COVER}smtlib.py"),
    "proofs/lemmas/descent.py": (f"{COVER}recursion.py",),
    "proofs/lemmas/induction.py": (f"{COVER}recursion.py", f"{COVER}checked_proofs.py"),
    "proofs/lemmas/expressions.py": (f"{COVER}unfold.py", f"{COVER}recursion.py"),
    "proofs/lemmas/statements.py": (f"{COVER}statements.py", f"{COVER}prove_lemmas.py"),
    "proofs/lemmas/proving.py": (f"{COVER}proving.py", f"{COVER}prove_lemmas.py"),
    **{f"proofs/lemmas/{name}.py": (f"{COVER}checked_proofs.py",) for name in ("checked", "instances")},
    "proofs/lemmas/at_use.py": (f"{COVER}recursion.py", f"{COVER}obligations_outcomes.py"),
    "proofs/lemmas/countermodel.py": (f"{COVER}countermodel.py", f"{COVER}proving.py", f"{COVER}prove_lemmas.py"),
    "proofs/lemmas/transitions.py": (f"{COVER}transitions.py",),
    "proofs/solvers/smtinterpol.py": (f"{COVER}checked_proofs.py",),
    "proofs/prove_lemmas.py": (f"{COVER}prove_lemmas.py", f"{COVER}checked_proofs.py"),
    **{f"proofs/kernel/{name}.py": (*KERNEL, PROGRAM) for name in ("evidence", "program")},
    **{f"proofs/kernel/{name}.py": KERNEL for name in ("opinion", "installed")},
    "proofs/kernel/install.py": (f"{COVER}kernel_install.py", *KERNEL),
    "proofs/tools/maven.py": (f"{COVER}maven.py",),
    "proofs/tools/users_folders.py": (f"{COVER}users_folders.py",),
    "proofs/kernel/coq_file.py": (f"{COVER}kernel.py", f"{COVER}second_opinion.py"),
    **{
        f"proofs/readers/{name}.py": READERS
        for name in (
            "bodies", "compare", "difference", "ir_model", "ir_tables",
            "onnx_graph", "onnx_model", "operators", "sharing",
        )
    },
    "proofs/readers/models/compare_steps.py": (*READERS, f"{COVER}order_memory.py"),
    "proofs/readers/models/compare_tensors.py": (*READERS, f"{COVER}envelope_verify.py"),
    "proofs/readers/models/derivatives.py": TRAINING,
    "proofs/readers/models/training.py": (f"{COVER}readers_training.py", *TRAINING),
    "proofs/readers/models/recomputation.py": (f"{COVER}readers_recomputation.py", f"{COVER}training_verify.py"),
    "proofs/verify/ranks.py": TOGETHER,
    "proofs/sharding/exchange.py": (f"{COVER}sharding_meetings.py", *TOGETHER),
    "proofs/sharding/cover.py": (f"{COVER}sharding_holes.py", *TOGETHER),
    **{f"proofs/sharding/{name}.py": (f"{COVER}sharding_parts.py", *SHARDING) for name in ("mesh", "parts")},
    "proofs/sharding/partitions.py": (f"{COVER}sharding_lies.py", *SHARDING),
    "proofs/sharding/rank_model.py": (f"{COVER}sharding_steps.py", f"{COVER}sharding_lies.py", *SHARDING),
    "proofs/sharding/stages.py": (f"{COVER}sharding_stages.py", *SHARDING),
    "proofs/sharding/loops.py": (f"{COVER}sharding_loops.py", *SHARDING),
    "proofs/verify/export.py": (f"{COVER}smtlib.py", f"{COVER}second_opinion.py"),
    "tmmu/planner/slots.py": (f"{PREFIX}slots.py", *PLANNER, f"{COVER}following.py"),
    "tmmu/planner/liveness.py": (f"{PREFIX}liveness.py", *PLANNER),
    "tmmu/planner/storages.py": (f"{PREFIX}storages.py", *PLANNER),
    "tmmu/planner/placed.py": (f"{PREFIX}addresses.py",),
    "tmmu/planner/layouts/slots.py": LAYOUTS,
    "tmmu/planner/layouts/request.py": (*LAYOUTS, *PLANNER),
    "tmmu/planner/layouts/packed.py": (f"{COVER}layouts_packed.py", *LAYOUTS, GOLDEN),
    "tmmu/planner/layouts/pools.py": (f"{COVER}layouts_pools.py", *LAYOUTS, GOLDEN),
    "tmmu/planner/layouts/hashed.py": (f"{COVER}layouts_hashed.py", f"{COVER}layouts_placing.py"),
    "tmmu/planner/fitting.py": (f"{COVER}layouts_packed.py", f"{COVER}layouts_pools.py", *LAYOUTS),
    **{
        f"tmmu/planner/{name}.py": HOMES
        for name in ("arenas", "arena_file", "memories", "patterns", "permitted", "placing")
    },
    **{f"tmmu/planner/{name}.py": (f"{PREFIX}choosing.py", *HOMES) for name in ("choosing", "levels")},
    "tmmu/planner/plan.py": (*PLANNER, f"{COVER}order_memory.py", f"{COVER}cli_plan.py"),
    "tmmu/planner/envelope.py": (f"{PREFIX}envelope.py", f"{COVER}envelope_verify.py", f"{COVER}replan.py"),
    "tmmu/planner/replan.py": (f"{COVER}replan.py",),
    **{
        f"tmmu/planner/orders/{name}.py": ORDERS
        for name in ("__init__", "depth_first", "exact", "graph", "greedy", "lazy", "portfolio", "segments")
    },
    **{f"tmmu/planner/training/{name}.py": (*JOINT, GOLDEN) for name in ("expand", "gradients", "modes")},
    **{f"tmmu/planner/remat/{name}.py": REWRITING for name in ("rewrite", "strategies")},
    "tmmu/planner/remat/choose.py": (f"{COVER}remat_policies.py",),
    "tmmu/planner/remat/schedules.py": (f"{COVER}remat_schedules.py",),
    **{f"tmmu/planner/sharding/{name}.py": SHARDING for name in ("local", "spec")},
    "tmmu/planner/sharding/splits.py": (f"{COVER}sharding_lies.py", *SHARDING),
    "tmmu/planner/sharding/rewrite.py": (f"{COVER}sharding_steps.py", f"{COVER}sharding_lies.py", *SHARDING),
    "tmmu/planner/sharding/stages.py": (f"{COVER}sharding_stages.py", *SHARDING),
    "tmmu/planner/sharding/relations.py": (f"{COVER}sharding_loops.py", *SHARDING),
    **{f"tmmu/plan/{name}.py": FILES for name in ("columns", "configuration", "fields", "file", "gate", "metrics")},
    "tmmu/plan/sharding.py": (f"{COVER}plan_file.py", *SHARDING),
    **{f"tmmu/core/dims/{name}.py": SIZES for name in ("expressions", "maxima", "operations", "table")},
}  # fmt: skip
"""The most critical files, with their tests; what `--files` is not given for, in this order."""


def tests_of(path: str) -> tuple[str, ...]:
    """The tests that have to notice a change of a file."""
    return TARGETS.get(path, ("tests/unit",))
