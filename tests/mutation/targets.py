"""Which tests have to notice a change of which file: the fastest and the most telling first.

A change counts as noticed by the first test that fails. Files that are not listed are held to the whole of
`tests/cover`. `tests/quality/test_mutation.py` keeps what is named here existing.
"""

from __future__ import annotations

NAIVE = (
    "tests/cover/test_checker.py",
    "tests/cover/test_mutations.py",
    "tests/properties/test_brute_force.py",
    "tests/properties/test_corruptions.py",
    "tests/cover/test_broken_corpus.py",
)
STRUCTURE = ("tests/cover/test_structure.py", "tests/cover/test_checker.py", "tests/cover/test_broken_corpus.py")
ROWS = (
    "tests/cover/test_obligations_rows.py",
    "tests/cover/test_obligations_refuse.py",
    "tests/cover/test_obligations_agree.py",
    "tests/cover/test_broken_corpus.py",
)
EDGES = ("tests/cover/test_layouts_commands.py", "tests/properties/test_layouts.py")
GOLDEN = "tests/cover/test_golden_traces.py"
PLANNER = ("tests/cover/test_planner_plan.py", "tests/properties/test_planned_plans.py", GOLDEN)
LAYOUTS = ("tests/cover/test_planner_addresses.py", "tests/properties/test_layouts.py")
PREFIX = "tests/cover/test_planner_"

TARGETS: dict[str, tuple[str, ...]] = {
    "proofs/checker.py": NAIVE,
    "proofs/memory.py": ("tests/cover/test_memory.py", *NAIVE),
    "proofs/structure.py": STRUCTURE,
    "proofs/claims.py": ("tests/cover/test_claims.py", "tests/cover/test_broken_corpus.py"),
    "proofs/program.py": ("tests/cover/test_proof_program.py", *NAIVE),
    "proofs/certificate.py": ROWS,
    "proofs/edges.py": (*ROWS, *EDGES),
    "proofs/lemmas/unfold.py": ("tests/cover/test_second_opinion.py", "tests/cover/test_prove_lemmas.py"),
    "proofs/lemmas/descent.py": ("tests/cover/test_recursion.py",),
    "proofs/lemmas/induction.py": ("tests/cover/test_recursion.py", "tests/cover/test_prove_lemmas.py"),
    "proofs/lemmas/expressions.py": ("tests/cover/test_recursion.py", "tests/cover/test_prove_lemmas.py"),
    "proofs/lemmas/statements.py": ("tests/cover/test_prove_lemmas.py",),
    "proofs/lemmas/proving.py": ("tests/cover/test_prove_lemmas.py",),
    **{
        f"proofs/obligations/{name}.py": (*ROWS, "tests/cover/test_verify_plan.py")
        for name in (
            "__init__", "alignment", "capacity", "contents", "context", "definition", "discharge", "levels",
            "lifetimes_cover_accesses", "must_not_alias", "no_live_overlap", "rows", "sharing_is_sound", "slot_count",
            "tensors_within_storages",
        )
    },
    "proofs/obligations/by_edges.py": (*ROWS, *EDGES),
    "tmmu/planner/slots.py": (f"{PREFIX}slots.py", *PLANNER),
    "tmmu/planner/liveness.py": (f"{PREFIX}liveness.py", *PLANNER),
    "tmmu/planner/storages.py": (f"{PREFIX}storages.py", *PLANNER),
    "tmmu/planner/placed.py": (f"{PREFIX}addresses.py",),
    "tmmu/planner/layouts/slots.py": LAYOUTS,
    "tmmu/planner/layouts/request.py": (*LAYOUTS, *PLANNER),
    "tmmu/planner/layouts/packed.py": ("tests/cover/test_layouts_packed.py", *LAYOUTS, GOLDEN),
    "tmmu/planner/layouts/pools.py": ("tests/cover/test_layouts_pools.py", *LAYOUTS, GOLDEN),
    "tmmu/planner/layouts/hashed.py": ("tests/cover/test_layouts_hashed.py",),
}  # fmt: skip
"""The most critical files, with their tests; what `--files` is not given for, in this order."""


def tests_of(path: str) -> tuple[str, ...]:
    """The tests that have to notice a change of a file."""
    return TARGETS.get(path, ("tests/cover",))
