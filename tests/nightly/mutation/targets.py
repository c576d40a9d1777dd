"""Which tests have to notice a change of which file: the fastest and the most telling first.

A change counts as noticed by the first test that fails. Files that are not listed are held to the whole of
`tests/unit`. `tests/unit/test_mutation_targets.py` keeps what is named here existing, and
each module of the verifier, the planner and the importers named here or left out with a reason.
"""

from __future__ import annotations

from pathlib import Path

UNIT, PROPERTIES, COMMANDS = "tests/unit/test_", "tests/property/test_", "tests/integration/test_"
CORPUS = "tests/corpus/test_broken_corpus.py"
PLANS, MODELS = f"{UNIT}wrong_plans.py", f"{UNIT}wrong_models.py"
NAIVE = (
    PLANS, f"{UNIT}checker.py", f"{UNIT}mutations.py", f"{PROPERTIES}brute_force.py", f"{PROPERTIES}corruptions.py",
    CORPUS,
)  # fmt: skip
EXCLUSIVE = (f"{UNIT}exclusive_arms.py", f"{PROPERTIES}exclusive_arms.py")
STRUCTURE = (PLANS, *EXCLUSIVE, CORPUS)
ROWS = (
    "tests/corpus/test_kept_rows.py", PLANS, f"{UNIT}sharing_rows.py", f"{UNIT}obligations_rows.py",
    f"{COMMANDS}obligations_agree.py", CORPUS,
)  # fmt: skip
EDGES = (f"{COMMANDS}layouts_commands.py", f"{PROPERTIES}layouts.py")
VERIFY = (
    f"{UNIT}verdict.py", f"{UNIT}verify_plan.py", CORPUS, f"{COMMANDS}verify_command.py",
    f"{COMMANDS}text_commands.py", f"{COMMANDS}every_field.py",
)  # fmt: skip
ARENAS = (
    f"{COMMANDS}arenas_commands.py",
    f"{PROPERTIES}arenas.py",
    PLANS,
    f"{UNIT}planner_arenas.py",
)
ENVELOPE = (f"{UNIT}envelope_verify.py", f"{PROPERTIES}envelopes.py")
PROGRAM = "tests/integration/kernel/test_program.py"
OF_KERNEL = (PROGRAM, "tests/integration/kernel/test_differential.py", "tests/integration/kernel/test_verify.py")
KERNEL_SETS = "tests/integration/kernel/test_sets.py"
KERNEL = (f"{UNIT}kernel_words.py", f"{UNIT}kernel.py")
READERS = (
    f"{UNIT}readers_ir.py", MODELS, f"{UNIT}readers_onnx.py", f"{UNIT}readers_compare.py", f"{UNIT}readers_sharing.py",
    f"{UNIT}readers_operators.py", f"{PROPERTIES}model_files.py",
)  # fmt: skip
TRAINING = (f"{COMMANDS}training_verify.py", f"{UNIT}training_modes.py")
SHARDING = (
    f"{UNIT}sharding_plans.py", f"{UNIT}sharding_ranks.py", f"{COMMANDS}sharding_commands.py",
    f"{PROPERTIES}sharding.py",
)  # fmt: skip
TOGETHER = (f"{UNIT}sharding_together.py", f"{UNIT}sharding_ranks.py", f"{COMMANDS}sharding_commands.py")
SETS = (f"{UNIT}wrong_sets.py", f"{UNIT}sets_verdict.py", f"{PROPERTIES}plan_sets.py")
GOLDEN = "tests/corpus/test_golden_traces.py"
PLANNER = (
    "tests/unit/test_planner_plan.py", "tests/property/test_planned_plans.py", f"{PROPERTIES}second_planner.py", GOLDEN,
)  # fmt: skip
LAYOUTS = (f"{UNIT}planner_addresses.py", f"{UNIT}layouts_placing.py", f"{PROPERTIES}layouts.py")
FOLLOWED = "tests/integration/models/test_followed_regions.py"
PREFIX = "tests/unit/test_planner_"
HOMES = (
    f"{UNIT}arena_assignment.py",
    f"{UNIT}arena_filling.py",
    f"{PREFIX}allocation.py",
    f"{PREFIX}arenas.py",
    f"{COMMANDS}arenas_commands.py",
    f"{PREFIX}plan.py",
    f"{UNIT}every_failure_code.py",
    f"{UNIT}fixed_offsets.py",
    f"{UNIT}packing_search.py",
    f"{PROPERTIES}arenas.py",
)
ORDERS = (
    f"{UNIT}order_search.py",
    f"{UNIT}order_listed.py",
    f"{PROPERTIES}order_search.py",
    f"{UNIT}order_memory.py",
    f"{PROPERTIES}order.py",
)
REWRITING = (f"{UNIT}remat_rewrite.py", f"{UNIT}remat_strategies.py")
JOINT = (
    f"{UNIT}training_expand.py",
    f"{UNIT}training_modes.py",
    f"{COMMANDS}training_verify.py",
)
FILES = (
    f"{UNIT}plan_columns.py",
    f"{UNIT}metrics.py",
    f"{PREFIX}plan.py",
    f"{UNIT}plan_file.py",
)
SIZES = (
    f"{UNIT}envelope_expressions.py",
    f"{UNIT}envelope_shapes.py",
    f"{UNIT}envelope_verify.py",
)

FOREIGN = (
    f"{UNIT}foreign_readings.py", f"{PROPERTIES}foreign_damage.py", f"{COMMANDS}foreign_commands.py",
    "tests/corpus/test_foreign_plans.py",
)  # fmt: skip
ROWS_OF_OPERATORS = (f"{UNIT}operator_tables.py", f"{UNIT}opaque_nodes.py", f"{UNIT}readers_operators.py")
FOUND_SIZES = (f"{UNIT}sizes.py", f"{UNIT}sizes_found.py", f"{UNIT}sizes_refuse.py", f"{PROPERTIES}sizes.py")
SHAPES = (
    f"{UNIT}envelope_shapes.py", f"{UNIT}import_onnx.py", f"{UNIT}stated_sizes.py", f"{UNIT}encodings.py",
    f"{PROPERTIES}sizes.py",
)  # fmt: skip
TRACED = (f"{UNIT}traced_conversion.py", f"{UNIT}traced_windows.py")
PACKING = (f"{UNIT}packing_search.py", f"{UNIT}fixed_offsets.py", *LAYOUTS)
IR = (*(f"{UNIT}ir_{name}.py" for name in ("columns", "files", "order", "program", "text")), MODELS)

TESTING = (
    f"{UNIT}testing_answers.py", f"{UNIT}testing_checks.py", f"{UNIT}testing_smaller.py", f"{UNIT}testing_reach.py",
    f"{PROPERTIES}planted_faults.py", f"{COMMANDS}testing_programs.py", f"{COMMANDS}testing_pytest.py",
)  # fmt: skip
CATALOGUE = (
    f"{UNIT}fault_catalogue.py",
    f"{UNIT}testing_reach.py",
    f"{UNIT}testing_checks.py",
    f"{PROPERTIES}corruptions.py",
    f"{PROPERTIES}planned_plans.py",
)


def _modules(folder: str, *tests: str) -> dict[str, tuple[str, ...]]:
    """Every module that stands in a folder, with the same tests: one that is added there is a target at once."""
    root = Path(__file__).resolve().parents[3]
    return {str(path.relative_to(root)): tests for path in sorted((root / folder).glob("*.py"))}


TARGETS: dict[str, tuple[str, ...]] = {
    "proofs/definition/checker/execute.py": (
        PLANS, f"{PROPERTIES}plain_steps.py", f"{UNIT}checker_arms.py", f"{UNIT}verdict.py", *NAIVE,
    ),
    "proofs/definition/checker/structure.py": STRUCTURE,
    "proofs/definition/checker/memory.py": (f"{UNIT}memory.py", *NAIVE),
    "proofs/definition/checker/program.py": (f"{UNIT}proof_program.py", *NAIVE),
    **{f"proofs/definition/checker/{name}.py": (f"{UNIT}checker_arms.py", *EXCLUSIVE, *NAIVE)
       for name in ("states", "visits")},
    "proofs/definition/checker/configuration.py": (f"{UNIT}configured.py", f"{COMMANDS}arenas_commands.py"),
    "proofs/definition/checker/inputs.py": (f"{PROPERTIES}kept_inputs.py", PLANS, f"{UNIT}verdict.py"),
    "proofs/definition/checker/sharing.py": (PLANS, CORPUS, f"{COMMANDS}every_field.py"),
    "proofs/definition/checker/claims.py": (
        f"{UNIT}claims.py", f"{UNIT}layouts_hashed.py", PLANS, CORPUS,
    ),
    "proofs/readers/donation.py": (*VERIFY, f"{COMMANDS}sharding_commands.py"),
    "proofs/readers/patterns.py": (*ARENAS, f"{COMMANDS}sharding_commands.py"),
    **{
        f"proofs/proving/obligations/{name}.py": ROWS
        for name in (
            "alignment", "capacity", "contents", "context", "inputs_kept", "levels", "lifetimes_cover_accesses",
            "must_not_alias", "no_live_overlap", "peak", "sharing_is_sound", "slot_count", "tensors_within_storages",
        )
    },
    **{
        f"proofs/proving/obligations/{name}.py": (f"{UNIT}obligations_rows.py", *ROWS)
        for name in ("discharge", "rows")
    },
    "proofs/proving/obligations/arms.py": (*EXCLUSIVE, *ROWS),
    **{f"proofs/{side}/promises.py": (f"{UNIT}promises.py", f"{UNIT}obligations_outcomes.py")
       for side in ("definition", "proving")},
    "proofs/proving/obligations/__init__.py": (f"{UNIT}obligations_outcomes.py", *ROWS, f"{UNIT}envelope_verify.py"),
    "proofs/proving/obligations/by_edges.py": (f"{UNIT}edges.py", *ROWS, *EDGES),
    "proofs/proving/obligations/sizes_over_envelope.py": ENVELOPE,
    **dict.fromkeys(
        ("proofs/proving/obligations/races.py", "proofs/proving/certificate/clocks.py",
         "proofs/proving/certificate/turns.py", "proofs/streams/happens_before.py", "proofs/streams/races.py",
         "proofs/streams/interleavings.py"), (f"{PROPERTIES}streams.py", *ROWS)),
    **dict.fromkeys(
        ("proofs/proving/obligations/slots_of_streams.py", "proofs/proving/certificate/storage_ends.py",
         "proofs/streams/slots.py"), (f"{UNIT}stream_slots.py",)),
    "proofs/proving/certificate/edges.py": (f"{UNIT}edges.py", *ROWS, *EDGES),
    "proofs/proving/certificate/slots.py": ROWS,
    "proofs/definition/checker/layouts.py": (f"{UNIT}claims.py", *ROWS, *EDGES),
    "proofs/definition/checker/envelope.py": ENVELOPE,
    "proofs/definition/checker/fixed.py": (f"{UNIT}fixed_offsets.py",),
    "tmmu/planner/fixed.py": (f"{UNIT}fixed_offsets.py",),
    "tmmu/planner/layouts/around.py": (f"{UNIT}fixed_offsets.py",),
    "proofs/definition/checker/arenas.py": (f"{UNIT}homes.py", *ARENAS),
    "proofs/verify/verdict.py": (*VERIFY, f"{UNIT}formats.py"),
    **{f"proofs/verify/{name}.py": VERIFY for name in ("judge", "checks", "conclusion", "options")},
    **_modules("proofs/verify/fleet", f"{UNIT}fleet.py"),
    "proofs/verify/sources.py": (f"{UNIT}fleet.py", *VERIFY),
    "proofs/verify/forked.py": (f"{UNIT}forked.py", *VERIFY),
    **{
        f"proofs/proving/optimum/{name}.py": (f"{UNIT}optimum.py",)
        for name in ("formula", "refutation", "statements", "veripb")
    },
    "proofs/definition/violations.py": (*VERIFY, f"{UNIT}formats.py"),
    **{f"proofs/verify/{name}.py": (f"{UNIT}picture.py",) for name in ("picture", "boxes")},
    **{f"tmmu/report/{name}.py": (f"{COMMANDS}report.py", f"{UNIT}explain.py") for name in ("arena_map", "records")},
    "tmmu/report/lanes.py": (f"{COMMANDS}report.py",),
    **{f"tmmu/report/{name}.py": (f"{UNIT}explain.py",) for name in ("difference", "explanation")},
    **dict.fromkeys(("tmmu/plans/workspace_file.py", "proofs/readers/models/workspace.py"), (f"{UNIT}workspace.py",)),
    **dict.fromkeys(("tmmu/report/overview.py", "tmmu/cli/dumps.py"), (f"{UNIT}dumps.py",)),
    "tmmu/tasks/library.py": (f"{UNIT}library.py",),
    "tmmu/tasks/runtime_figures.py": (f"{UNIT}runtime_graphs.py",),
    "tmmu/ir/graph.py": (f"{UNIT}library.py", f"{UNIT}graph_streams.py"),
    **{f"proofs/verify/{name}.py": (f"{UNIT}formats.py", *VERIFY, f"{COMMANDS}sharding_commands.py")
       for name in ("formats", "text")},
    "tmmu/core/flags.py": (f"{UNIT}flags.py", f"{COMMANDS}verify_command.py", f"{COMMANDS}cli_plan.py"),
    **{f"proofs/verify/{name}.py": (f"{COMMANDS}folders.py",) for name in ("constructs", "folders", "pairing")},
    **dict.fromkeys(("tmmu/plans/failed_models.py", "tmmu/cli/failures.py"), (f"{COMMANDS}folders.py",)),
    "proofs/verify/command.py": (*VERIFY, f"{COMMANDS}second_opinion.py", f"{COMMANDS}sharding_commands.py"),
    "tmmu/core/children.py": (f"{UNIT}children.py",),
    "proofs/proving/kernel/libraries.py": (f"{UNIT}kernel_libraries.py",),
    "tmmu/core/process.py": (f"{COMMANDS}verify_command.py", f"{COMMANDS}prove_lemmas.py"),
    **{f"proofs/proving/solvers/{name}.py": (f"{UNIT}solvers.py",) for name in ("__init__", "child", "kept")},
    "proofs/proving/solvers/process.py": (f"{UNIT}solvers.py", f"{COMMANDS}second_opinion.py"),
    **dict.fromkeys(
        ("proofs/proving/solvers/option.py", "proofs/definition/tables.py"), (f"{UNIT}solvers.py", f"{UNIT}smtlib.py")
    ),
    **{f"proofs/proving/lemmas/plan/{name}.py": (f"{UNIT}unfold.py", f"{UNIT}layouts_lemmas.py",
       f"{UNIT}obligations_rows.py", f"{UNIT}recursion.py") for name in ("chains", "unfolded")},
    "proofs/proving/smt/unfold.py": (f"{UNIT}unfold.py", f"{COMMANDS}checked_proofs.py", f"{UNIT}smtlib.py"),
    "proofs/proving/smt/descent.py": (f"{UNIT}recursion.py",),
    "proofs/proving/smt/sorts.py": (f"{UNIT}sorts.py", f"{UNIT}recursion.py"),
    "proofs/proving/smt/totality.py": (f"{UNIT}sorts.py",),
    "proofs/proving/lemmas/engine/induction.py": (f"{UNIT}recursion.py", f"{COMMANDS}checked_proofs.py"),
    "proofs/proving/smt/expressions.py": (f"{UNIT}unfold.py", f"{UNIT}recursion.py"),
    "proofs/proving/lemmas/engine/statements.py": (f"{UNIT}statements.py", f"{COMMANDS}prove_lemmas.py"),
    "proofs/proving/lemmas/engine/proving.py": (f"{UNIT}proving.py", f"{COMMANDS}prove_lemmas.py"),
    **{f"proofs/proving/lemmas/engine/{name}.py": (f"{COMMANDS}checked_proofs.py",)
       for name in ("checked", "instances")},
    "proofs/proving/lemmas/engine/record.py": (f"{UNIT}recursion.py",),
    "proofs/proving/lemmas/engine/family.py": (
        f"{UNIT}recursion.py", f"{UNIT}proving.py", f"{COMMANDS}prove_lemmas.py",
    ),
    "proofs/proving/lemmas/export.py": (f"{COMMANDS}second_opinion.py", f"{COMMANDS}prove_lemmas.py"),
    "proofs/proving/smt/script.py": (f"{UNIT}smtlib.py", f"{COMMANDS}second_opinion.py"),
    "proofs/proving/lemmas/at_use.py": (f"{UNIT}recursion.py", f"{UNIT}obligations_outcomes.py"),
    "proofs/proving/lemmas/engine/countermodel.py": (f"{UNIT}countermodel.py", f"{UNIT}proving.py"),
    "proofs/proving/lemmas/engine/machine.py": (f"{UNIT}machine.py", f"{PROPERTIES}false_lemmas.py"),
    "proofs/proving/solvers/smtinterpol.py": (f"{COMMANDS}checked_proofs.py",),
    "proofs/proving/lemmas/command.py": (f"{COMMANDS}prove_lemmas.py", f"{COMMANDS}checked_proofs.py"),
    **{f"proofs/proving/kernel/{name}.py": (*KERNEL, *OF_KERNEL) for name in ("arms", "evidence", "memory", "program")},
    **{f"proofs/proving/kernel/{name}.py": (*KERNEL, *OF_KERNEL) for name in ("answer", "installed", "wheel")},
    **{f"proofs/{name}.py": (KERNEL_SETS,) for name in ("proving/kernel/sets", "sets/kernel")},
    "proofs/proving/kernel/streams.py": ("tests/integration/kernel/test_streams.py",),
    "proofs/proving/kernel/install.py": (f"{COMMANDS}kernel_install.py", *KERNEL),
    "proofs/tools/maven.py": (f"{UNIT}maven.py",),
    **{f"proofs/tools/{name}.py": (f"{UNIT}maven.py", f"{UNIT}model_check_tools.py") for name in ("java", "tlatools")},
    "proofs/proving/kernel/coq_file.py": (f"{UNIT}kernel.py", f"{COMMANDS}second_opinion.py"),
    "proofs/readers/sharing.py": READERS,
    "proofs/readers/arrivals.py": (f"{UNIT}arrivals.py", f"{PROPERTIES}arrivals.py"),
    "tmmu/ir/arrivals.py": (f"{UNIT}arrivals.py", f"{PROPERTIES}arrivals.py"),
    **_modules("proofs/readers/operators", *ROWS_OF_OPERATORS, *FOUND_SIZES, *TRAINING, f"{UNIT}sharding_loops.py"),
    "proofs/readers/operators/__init__.py": (f"{UNIT}operator_tables.py", *READERS),
    "proofs/readers/operators/domains.py": READERS,
    "proofs/readers/operators/gradients.py": TRAINING,
    "proofs/readers/operators/loops.py": (f"{UNIT}sharding_loops.py", *SHARDING),
    "proofs/readers/envelope.py": ENVELOPE,
    "proofs/readers/arms.py": EXCLUSIVE,
    **_modules("proofs/readers/models/sizes", *FOUND_SIZES),
    **_modules("proofs/readers/operators/sizes", *FOUND_SIZES),
    **{f"proofs/readers/operators/{name}.py": (f"{UNIT}sizes_runtimes.py", *FOUND_SIZES)
       for name in ("classic", "runtimes", "sizes/fused", "sizes/runtimes")},
    **_modules("proofs/readers/plans", *FOREIGN),
    **{f"proofs/readers/plans/{name}.py": (f"{UNIT}foreign_executorch.py", f"{UNIT}foreign_sets.py", *FOREIGN)
       for name in ("executorch", "executorch_file")},
    **{f"proofs/readers/plans/{name}.py": (f"{UNIT}foreign_scripts.py", *FOREIGN)
       for name in ("relax", "relax_kernels", "script")},
    **{f"proofs/readers/plans/{name}.py": (f"{UNIT}foreign_inductor.py", f"{UNIT}foreign_scripts.py",
                                           f"{PROPERTIES}foreign_inductor.py", *FOREIGN)
       for name in ("inductor", *(f"inductor_{part}" for part in
                    ("access", "calls", "cpp", "cpp_text", "kernels", "memory", "module", "triton")))},
    **{f"proofs/readers/plans/{name}.py": (f"{UNIT}foreign_xla.py", f"{PROPERTIES}foreign_xla.py", *FOREIGN)
       for name in ("xla", "xla_rows", "xla_buffers", "cells")},
    **{f"proofs/readers/plans/{name}.py": (f"{UNIT}foreign_hlo.py", f"{UNIT}foreign_xla.py", *FOREIGN)
       for name in ("hlo", "hlo_module", "hlo_opcodes", "hlo_text")},
    **{f"proofs/readers/plans/{name}.py": (f"{UNIT}foreign_hlo_in_place.py", f"{PROPERTIES}foreign_xla.py", *FOREIGN)
       for name in ("hlo_follow", "hlo_in_place", "hlo_index", "hlo_rules")},
    **{f"proofs/readers/plans/{name}.py": (f"{UNIT}foreign_{name}.py", *FOREIGN) for name in ("iree", "minimalloc")},
    **{f"proofs/readers/plans/iree_{part}.py": (f"{UNIT}foreign_iree.py", *FOREIGN) for part in
       ("commands", "control", "lines", "slices", "text", "values")},
    **{f"proofs/readers/plans/{name}.py": (f"{UNIT}foreign_tflite.py", f"{UNIT}foreign_sets.py", *FOREIGN)
       for name in ("tflite", "vela")},
    "proofs/readers/plans/cells.py": (f"{UNIT}foreign_cells.py", f"{UNIT}foreign_scripts.py", *FOREIGN),
    "proofs/readers/plans/script.py": (f"{UNIT}foreign_cells.py", f"{UNIT}foreign_scripts.py", *FOREIGN),
    "tmmu/core/flatbuffer.py": (f"{UNIT}flatbuffer.py", f"{UNIT}foreign_tflite.py", *FOREIGN),
    "tmmu/core/source.py": (f"{UNIT}foreign_scripts.py", f"{UNIT}foreign_xla.py", *FOREIGN),
    "proofs/readers/plans/foreign_plan.py": (f"{UNIT}foreign_scripts.py", f"{UNIT}foreign_xla.py", *FOREIGN),
    **{
        f"proofs/readers/models/{name}.py": READERS
        for name in ("bodies", "ir", "ir_tables", "onnx_graph", "onnx", "reference")
    },
    **dict.fromkeys(("proofs/sets/contents.py", "proofs/readers/models/contents.py"), (f"{UNIT}set_contents.py",)),
    "proofs/readers/models/onnx_streams.py": (f"{UNIT}onnx_streams.py",),
    **{f"proofs/definition/model/{name}.py": READERS for name in ("compare", "difference")},
    "proofs/definition/model/compare_steps.py": (*READERS, f"{UNIT}order_memory.py"),
    "proofs/definition/model/compare_tensors.py": (*READERS, f"{UNIT}envelope_verify.py"),
    "proofs/readers/models/covered.py": (f"{UNIT}opaque_nodes.py",),
    "proofs/readers/models/training.py": (f"{UNIT}readers_training.py", *TRAINING),
    "proofs/readers/models/recomputation.py": (f"{UNIT}readers_recomputation.py", f"{COMMANDS}training_verify.py"),
    "proofs/verify/ranks.py": TOGETHER,
    "proofs/sharding/exchange.py": (f"{UNIT}sharding_meetings.py", *TOGETHER),
    "proofs/sharding/cover.py": (f"{UNIT}sharding_holes.py", *TOGETHER),
    **{f"proofs/sharding/{name}.py": (f"{UNIT}sharding_parts.py", *SHARDING) for name in ("mesh", "parts")},
    "proofs/sharding/partitions.py": (f"{UNIT}sharding_partitions.py", *SHARDING),
    "proofs/sharding/rank_model.py": (f"{UNIT}sharding_steps.py", f"{UNIT}sharding_partitions.py", *SHARDING),
    "proofs/sharding/stages.py": (f"{UNIT}sharding_stages.py", *SHARDING),
    "proofs/sharding/loops.py": (f"{UNIT}sharding_loops.py", *SHARDING),
    **{f"proofs/sets/{name}.py": SETS
       for name in ("agreed", "calls", "members", "rows", "state", "violations")},
    "proofs/verify/sets.py": (f"{UNIT}sets_verdict.py",),
    **{f"tmmu/planner/sets/{name}.py": (f"{PREFIX}sets.py", f"{PROPERTIES}plan_sets.py")
       for name in ("joint", "plan", "programs", "shares")},
    "tmmu/plans/sets.py": (f"{UNIT}plans_sets.py",),
    "proofs/verify/export.py": (f"{UNIT}smtlib.py", f"{COMMANDS}second_opinion.py"),
    "tmmu/foundry/weights.py": (f"{UNIT}foundry_weights.py", f"{PROPERTIES}foundry_files.py"),
    **{f"tmmu/foundry/{name}.py": (f"{UNIT}foundry_{name}.py",) for name in ("dequantize", "tokenizer", "environment")},
    **{
        f"tmmu/foundry/{name}.py": (f"{UNIT}foundry_session.py", f"{PROPERTIES}foundry_session.py")
        for name in ("session", "graph", "forward", "cpu_kernels", "compiled", "drafts", "scoring")
    },
    "tmmu/foundry/ggml_kernels.py": (f"{UNIT}foundry_ggml.py",),
    **{
        f"tmmu/{name}.py": (f"{UNIT}foundry_pool.py", f"{PROPERTIES}foundry_pool.py")
        for name in ("foundry/pool", "foundry/pooled", "foundry/leases", "runtime/leases")
    },
    **{f"tmmu/foundry/{name}.py": (f"{UNIT}foundry_device.py",) for name in ("cpu", "device", "storage")},
    **{
        f"tmmu/foundry/{name}.py": (f"{UNIT}foundry_{name}.py", f"{PROPERTIES}foundry_cache.py")
        for name in ("context", "kv_cache")
    },
    **{
        f"tmmu/mnemosyne/{name}.py": (f"{UNIT}mnemosyne_regions.py", f"{PROPERTIES}mnemosyne_regions.py", FOLLOWED)
        for name in ("regions", "address_space")
    },
    "tmmu/mnemosyne/replacement.py": (f"{UNIT}mnemosyne_replacement.py", f"{PROPERTIES}mnemosyne_replacement.py"),
    **{f"tmmu/mnemosyne/{name}.py": (f"{UNIT}mnemosyne_hardware.py",) for name in ("hardware", "latency")},
    "tmmu/mnemosyne/delta_report.py": (f"{UNIT}mnemosyne_delta_report.py",),
    "tmmu/mnemosyne/delta_figures.py": (f"{UNIT}mnemosyne_delta_figures.py",),
    "tmmu/mnemosyne/hit_rates.py": (f"{UNIT}mnemosyne_replacement.py", f"{PROPERTIES}mnemosyne_replacement.py"),
    "tmmu/mnemosyne/delta.py": (f"{PROPERTIES}mnemosyne_delta.py", f"{UNIT}mnemosyne_delta_report.py"),
    "tmmu/mnemosyne/keys.py": (f"{UNIT}mnemosyne_keys.py", f"{UNIT}mnemosyne_sealed_log.py"),
    "tmmu/mnemosyne/failures.py": (f"{UNIT}mnemosyne_regions.py", f"{UNIT}every_failure_code.py"),
    "tmmu/mnemosyne/plots.py": (f"{COMMANDS}mnemosyne_measured.py",),
    **{f"tmmu/foundry/{name}.py": (f"{UNIT}foundry_session.py", f"{UNIT}every_failure_code.py")
       for name in ("failures", "kernels")},
    "tmmu/mnemosyne/measured.py": (f"{COMMANDS}mnemosyne_measured.py",),
    "tmmu/mnemosyne/faults.py": (f"{COMMANDS}mnemosyne_faults.py",),
    "tmmu/mnemosyne/locks.py": (f"{UNIT}mnemosyne_locks.py", f"{PROPERTIES}mnemosyne_locks.py"),
    **{
        f"tmmu/mnemosyne/{name}.py": (f"{UNIT}mnemosyne_store.py", f"{PROPERTIES}mnemosyne_store.py")
        for name in ("store", "vector_blocks", "npy_files", "mapped_file")
    },
    **{
        f"tmmu/mnemosyne/{name}.py": (f"{UNIT}mnemosyne_open_store.py", f"{UNIT}mnemosyne_store.py")
        for name in ("open_store", "placed_records", "store_blocks", "store_index")
    },
    "tmmu/mnemosyne/rotation.py": (f"{UNIT}mnemosyne_rotation.py", f"{PROPERTIES}mnemosyne_store.py"),
    **{
        f"tmmu/mnemosyne/{name}.py": (f"{UNIT}mnemosyne_sealed_log.py", f"{PROPERTIES}mnemosyne_sealed_log.py")
        for name in ("sealed_log", "log_scan", "anchors", "sealed_format")
    },
    "tmmu/examples/draws.py": (f"{UNIT}example_weights.py", f"{UNIT}example_llama.py"),
    "tmmu/examples/llama.py": (f"{UNIT}example_llama.py",),
    **{
        f"tmmu/planner/streams/{name}.py": (f"{PREFIX}streams.py", f"{PROPERTIES}stream_orders.py")
        for name in ("steps", "storages", "antichain", "chains")
    },
    "tmmu/planner/streams/program.py": (f"{PREFIX}streams.py", f"{PROPERTIES}stream_plans.py"),
    "tmmu/planner/streams/assignment.py": (f"{PREFIX}streams.py", f"{PROPERTIES}stream_plans.py"),
    "tmmu/planner/streams/events.py": (f"{PREFIX}streams.py",),
    "tmmu/planner/slots.py": (f"{PREFIX}slots.py", *PLANNER, f"{UNIT}following.py"),
    "tmmu/planner/liveness.py": (f"{PREFIX}liveness.py", *PLANNER),
    "tmmu/planner/aliasing.py": (f"{PREFIX}aliasing.py", *PLANNER),
    "tmmu/core/alignment.py": (f"{PREFIX}addresses.py",),
    "tmmu/planner/layouts/slots.py": LAYOUTS,
    "tmmu/planner/problem.py": (f"{UNIT}fixed_offsets.py", f"{UNIT}packing_search.py", *LAYOUTS, *PLANNER),
    "tmmu/planner/buffers.py": (f"{UNIT}export_tflite.py", f"{UNIT}executorch.py"),
    "tmmu/exporters/minimalloc.py": (f"{UNIT}export_minimalloc.py",),
    "tmmu/exporters/tflite.py": (f"{UNIT}export_tflite.py", f"{COMMANDS}foreign_commands.py"),
    "tmmu/exporters/executorch.py": (f"{UNIT}executorch.py",),
    "tmmu/exporters/ggml.py": (f"{UNIT}export_ggml.py",),
    "tmmu/planner/layouts/packed.py": (f"{UNIT}layouts_packed.py", *PACKING, GOLDEN),
    "tmmu/planner/layouts/pools.py": (f"{UNIT}layouts_pools.py", f"{UNIT}fixed_offsets.py", *LAYOUTS, GOLDEN),
    "tmmu/planner/layouts/hashed.py": (f"{UNIT}layouts_hashed.py", f"{UNIT}layouts_placing.py"),
    "tmmu/planner/layouts/exact.py": (f"{UNIT}exact_packing.py",),
    "tmmu/planner/layouts/skyline.py": (f"{UNIT}layouts_skyline.py",),
    "tmmu/tasks/calibration.py": (f"{UNIT}cli_effort.py",),
    **{f"tmmu/planner/layouts/{name}.py": PACKING for name in ("search", "exhaustive", "refit", "compiled")},
    "tmmu/planner/options.py": (*PLANNER, f"{COMMANDS}cli_plan.py"),
    **_modules("tmmu/importers", f"{UNIT}import_onnx.py", *SHAPES),
    **_modules("tmmu/operators", *ROWS_OF_OPERATORS, *JOINT, f"{UNIT}sharding_loops.py"),
    "tmmu/operators/costs.py": REWRITING,
    "tmmu/operators/aten.py": REWRITING,
    "tmmu/operators/gradients.py": (f"{UNIT}operator_tables.py", *JOINT),
    "tmmu/operators/jax.py": (*TRACED, f"{COMMANDS}trace_jax.py"),
    "tmmu/operators/relations.py": (f"{UNIT}sharding_loops.py", *SHARDING),
    **_modules("tmmu/onnx", *SHAPES),
    "tmmu/onnx/table.py": (f"{UNIT}operator_tables.py", f"{UNIT}shapes_values.py", f"{UNIT}sizes_runtimes.py", *SHAPES),
    **{f"tmmu/onnx/{name}.py": (f"{UNIT}runtime_graphs.py", f"{UNIT}sizes_runtimes.py")
       for name in ("canonical_graph", "fused", "optimized")},
    **{f"tmmu/onnx/{name}.py": (f"{UNIT}shapes_{name}.py", *SHAPES)
       for name in ("binding", "bodies", "naming", "reading", "resolution", "structure", "values")},
    "tmmu/importers/constants.py": (f"{UNIT}constants.py", *SHAPES),
    "tmmu/importers/onnx_streams.py": (f"{UNIT}onnx_streams.py",),
    "tmmu/importers/opaque.py": (f"{UNIT}opaque_nodes.py", *SHAPES),
    **{f"tmmu/importers/{name}.py": (*TRACED, f"{COMMANDS}trace_torch.py", f"{COMMANDS}trace_jax.py")
       for name in ("conversion", "jax", "jax_reader", "phases", "torch", "torch_reader", "traced", "windows")},
    "tmmu/cli/alternatives.py": (f"{UNIT}alternatives.py",),
    "tmmu/planner/layouts/ordered.py": (f"{UNIT}planner_streams.py",),
    "tmmu/planner/layouts/best_fit.py": (f"{UNIT}packing_search.py", f"{UNIT}layouts_packed.py"),
    "tmmu/planner/layouts/boxes.py": (f"{UNIT}layouts_packed.py", f"{UNIT}layouts_pools.py", *PACKING),
    **{
        f"tmmu/{name}.py": HOMES
        for name in (
            "plans/memories", "planner/patterns", "planner/allocation", "plans/configuration",
            "plans/configuration_file", "planner/arenas/permitted", "planner/arenas/capacity",
        )
    },
    **{
        f"tmmu/planner/arenas/{name}.py": (f"{UNIT}arena_filling.py", *HOMES)
        for name in ("assignment", "filling", "levels")
    },
    "tmmu/planner/layouts/addresses.py": (f"{PREFIX}addresses.py",),
    "tmmu/planner/modes.py": (*JOINT, GOLDEN),
    "tmmu/planner/mutations.py": PLANNER,
    "tmmu/planner/plan.py": (*PLANNER, f"{UNIT}layouts_hashed.py", f"{UNIT}order_memory.py", f"{COMMANDS}cli_plan.py"),
    "tmmu/planner/envelope.py": (f"{PREFIX}envelope.py", f"{UNIT}envelope_verify.py", f"{UNIT}replan.py"),
    "tmmu/planner/replan.py": (f"{UNIT}replan.py",),
    "tmmu/plans/shapes.py": (f"{UNIT}envelope_verify.py", f"{UNIT}planner_plan.py", f"{COMMANDS}cli_run.py"),
    "tmmu/plans/replan.py": (f"{UNIT}replan.py", f"{UNIT}runtime_safepoint.py"),
    **{
        f"tmmu/planner/orders/{name}.py": ORDERS
        for name in ("__init__", "depth_first", "exact", "graph", "greedy", "lazy", "listed", "portfolio", "segments")
    },
    "tmmu/planner/orders/listed.py": (f"{UNIT}order_listed.py",),
    **{f"tmmu/planner/training/{name}.py": (*JOINT, f"{UNIT}opaque_nodes.py", GOLDEN)
       for name in ("expand", "gradients")},
    **{f"tmmu/planner/remat/{name}.py": REWRITING for name in ("rewrite", "strategies")},
    "tmmu/planner/remat/choose.py": (f"{UNIT}remat_policies.py",),
    "tmmu/planner/remat/schedules.py": (f"{UNIT}remat_schedules.py",),
    "tmmu/planner/sharding/local.py": SHARDING,
    "tmmu/planner/sharding/spec.py": (f"{UNIT}sharding_spec.py", *SHARDING),
    "tmmu/planner/sharding/splits.py": (f"{UNIT}sharding_partitions.py", *SHARDING),
    "tmmu/planner/sharding/rewrite.py": (f"{UNIT}sharding_steps.py", f"{UNIT}sharding_partitions.py", *SHARDING),
    "tmmu/planner/sharding/stages.py": (f"{UNIT}sharding_stages.py", *SHARDING),
    "tmmu/planner/sharding/relations.py": (f"{UNIT}sharding_loops.py", *SHARDING),
    **{
        f"tmmu/plans/{name}.py": FILES
        for name in ("allocation", "claims", "columns", "file", "gate", "metrics", "provenance", "sections")
    },
    "tmmu/core/fields.py": FILES,
    "tmmu/core/new_files.py": (f"{UNIT}new_files.py", f"{UNIT}canonical.py"),
    "tmmu/core/folders.py": (f"{UNIT}private_folders.py", f"{COMMANDS}working_folder.py"),
    "tmmu/core/bindings.py": (f"{UNIT}stepped_ranges.py", f"{UNIT}stated_sizes.py", f"{UNIT}envelope_verify.py"),
    "tmmu/core/canonical.py": (f"{UNIT}canonical.py", f"{UNIT}plan_file.py"),
    "tmmu/core/columns.py": (f"{UNIT}plan_columns.py", f"{UNIT}plan_file.py"),
    "tmmu/core/dtypes.py": (f"{UNIT}ir_dtypes.py", f"{UNIT}readers_operators.py"),
    "tmmu/core/errors.py": (f"{UNIT}errors.py", f"{UNIT}every_failure_code.py"),
    "tmmu/core/extras.py": (f"{UNIT}missing_packages.py",),
    "tmmu/core/npy.py": (f"{UNIT}npy.py",),
    "tmmu/core/reading.py": (f"{UNIT}reading.py", f"{UNIT}canonical.py"),
    "tmmu/core/interrupts.py": (f"{UNIT}foundry_session.py",),
    "tmmu/core/phase_times.py": (f"{UNIT}phase_times.py",),
    "tmmu/core/kind.py": (f"{UNIT}plan_kind.py", f"{UNIT}verify_plan.py"),
    **{f"tmmu/core/{name}.py": (f"{UNIT}{name}.py", f"{UNIT}explain.py") for name in ("output", "progress")},
    "tmmu/core/pages.py": (f"{UNIT}explain.py", f"{COMMANDS}report.py"),
    "tmmu/core/records.py": (f"{UNIT}runtime_records.py", f"{UNIT}run_records.py"),
    "tmmu/core/statements.py": (f"{UNIT}ir_text.py", f"{UNIT}plan_text.py"),
    "proofs/proving/kernel/stated_streams.py": (f"{UNIT}stream_models.py",),
    "proofs/definition/model/compare_streams.py": (f"{UNIT}stream_models.py",),
    "tmmu/core/streams.py": (f"{UNIT}stream_statements.py",),
    "tmmu/core/vocabulary.py": (f"{UNIT}plan_file.py", f"{UNIT}every_failure_code.py"),
    "tmmu/core/dims/text.py": (f"{UNIT}ir_text.py", *SIZES),
    **{f"tmmu/ir/{name}.py": (f"{UNIT}ir_{name}.py", *IR)
       for name in ("columns", "files", "order", "program", "text")},
    **dict.fromkeys(("tmmu/ir/text_writer.py", "tmmu/ir/validate.py"), (MODELS, *IR)),
    **{f"tmmu/plans/{name}.py": (f"{UNIT}plan_text.py", f"{PROPERTIES}plan_text.py", f"{UNIT}exclusive_arms.py")
       for name in ("building", "lifetimes", "places", "text", "text_writer", "reading")},
    "tmmu/plans/pools.py": (f"{UNIT}memory_pools.py",),
    "tmmu/plans/sharding.py": (f"{UNIT}plan_file.py", *SHARDING),
    **{f"tmmu/core/dims/{name}.py": SIZES for name in ("expressions", "maxima", "operations", "table")},
    **_modules("tmmu/testing", *TESTING),
    **_modules("tmmu/testing/strategies", f"{UNIT}testing_reach.py", *TESTING),
    **_modules("tmmu/testing/catalogue", *CATALOGUE),
}  # fmt: skip
"""The most critical files, with their tests; what `--files` is not given for, in this order."""


LEFT_OUT = {
    "proofs/proving/lemmas/families.py": "a list of the families",
    "proofs/proving/lemmas/entry.py": "starts the command, in a process of its own",
    "proofs/verify/entry.py": "starts the command, in a process of its own",
    "proofs/verify/version.py": "prints the version",
    "proofs/proving/lemmas/plan/": "texts of lemmas, which have mutants of their own that `prove-lemmas` refutes",
    "proofs/proving/lemmas/planner/": "texts of lemmas, which have mutants of their own that `prove-lemmas` refutes",
    "proofs/proving/lemmas/systems/": "texts of lemmas, which have mutants of their own that `prove-lemmas` refutes",
    "tmmu/planner/__init__.py": "imports what it names at the first use",
    "proofs/model_check/": "runs TLC, which takes minutes; no verdict on a plan depends on it",
}
"""Modules of the verifier, the planner and the importers that are no targets, with the reason."""


def tests_of(path: str) -> tuple[str, ...]:
    """The tests that have to notice a change of a file."""
    return TARGETS.get(path, ("tests/unit",))
