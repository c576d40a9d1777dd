"""What `tmmu session` prints: the context, the memory of a session as a table, and figures of a run. spec: FD8.2"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tmmu.core.output import align_rows, count_noun, format_size
from tmmu.foundry.compiled import STAGING_BYTES
from tmmu.foundry.drafts import Drafts
from tmmu.foundry.forward import document_buffers
from tmmu.foundry.graph import SessionPlans, arena_mode, arena_sizes
from tmmu.foundry.kv_cache import growth_bytes
from tmmu.foundry.session import ModelSession
from tmmu.foundry.storage import TensorType, storage_mode
from tmmu.plans.sections import Plan


def facts(session: ModelSession, plans: SessionPlans) -> dict[str, Any]:
    """The context and the memory of a session, all sizes in bytes and lengths in tokens.

    `rows` are those of its largest pass, `unshared` the bytes that the intermediates of one pass need at most without
    sharing, `document` those that the 24 buffers of
    the document need for this model, chunk and capacity, in F16 (FD6.9). `growth_bytes` are those that the last growth
    by doubling needs beside that for a moment: the old buffers, and the staging buffer of the tables.
    """
    context, shape, kv = session.context, session.model.shape, session.kv_shape
    modes = session.settings.forced
    weights = sum(weight.blocks.nbytes for weight, _ in session.model.weights.values())
    cache = storage_mode(TensorType.KV_CACHE, modes).value
    arenas, tables = arena_sizes(plans, session.forward), 2 * len(shape.rotations)
    memory = [
        ("weights", storage_mode(TensorType.WEIGHTS, {}).value, weights, f"{len(session.model.weights)} tensors"),
        ("KV cache", cache, context.allocated * context.bytes_per_token, f"{context.allocated} tokens, at first"),
        ("KV cache", cache, context.limit * context.bytes_per_token, f"{context.limit} tokens, at most"),
        ("RoPE tables", "Private", tables * kv.rope_bytes(context.limit), f"{context.limit} positions, at most"),
        *((name, arena_mode(name, modes).value, arenas[name], "planned") for name in arenas),
        ("text", "Shared", 4 * context.limit, f"{context.limit} token ids"),
        ("drafts", "host", Drafts.size(context.limit), "n-grams of the text"),
    ]
    before = context.allocated
    while 2 * before < context.limit:
        before *= 2
    return {
        "file": session.model.file.path,
        "context": {
            "model_maximum": context.model_maximum, "requested": context.requested, "usable": context.usable,
            "allocated": context.allocated, "limit": context.limit, "budget": context.budget,
            "budget_source": context.source, "budget_tokens": context.budget_tokens,
            "bytes_per_token": context.bytes_per_token, "layout": kv.layout,
            "clamps": [clamp._asdict() for clamp in context.clamps],
        },
        "memory": [dict(zip(("what", "mode", "bytes", "note"), row, strict=True)) for row in memory],
        "steady_bytes": sum(bytes_ for what, _, bytes_, note in memory if not note.endswith("at first")),
        "growth_bytes": growth_bytes(kv, before, len(shape.rotations)) if before < context.limit else 0,
        "staging_bytes": STAGING_BYTES,
        "rows": max(one.size.rows for one in session.passes_of.values()),
        "unshared_bytes": max(map(unshared_bytes, plans.plans.values())),
        "document_bytes": 2 * sum(
            document_buffers(shape, session.settings.prefill_chunk_size, context.allocated).values()
        ),
    }  # fmt: skip


def unshared_bytes(plan: Plan) -> int:
    """Return the bytes of all intermediates of a pass, each for itself."""
    t, s = plan.allocation.tensors, plan.allocation.storages
    row = [arena.name for arena in plan.allocation.arenas].index("intermediates")
    return int(t.bytes[s.arena[t.storage] == row].sum())


def lines(found: dict[str, Any]) -> Iterator[str]:
    """`facts` for a person."""
    context = found["context"]
    asked = "" if context["requested"] is None else f", {context['requested']} requested"
    yield f"{found['file']}: context of {context['usable']} tokens ({context['model_maximum']} in the model{asked})"
    yield (
        f"  budget {format_size(context['budget'])}, {context['budget_source']}: {context['budget_tokens']} tokens of "
        f"{context['bytes_per_token']} bytes, {context['layout']}"
    )
    for clamp in context["clamps"]:
        yield f"  clamped from {clamp['asked']} to {clamp['given']}: {clamp['why']}"
    rows = [(r["what"], r["mode"], str(r["bytes"]), format_size(r["bytes"]), r["note"]) for r in found["memory"]]
    total = found["steady_bytes"]
    rows.append(("in all", "", str(total), format_size(total), "with the cache at its largest"))
    if found["growth_bytes"]:
        most = total + found["growth_bytes"]
        rows.append(("peak", "", str(most), format_size(most), "while it grows to that by doubling"))
    yield from (f"  {line}" for line in align_rows([("memory", "mode", "bytes", "", ""), *rows]))
    planned = next(r["bytes"] for r in found["memory"] if r["what"] == "intermediates")
    yield (
        f"  intermediates of a pass of {found['rows']} rows: {found['unshared_bytes']} bytes unshared, {planned} as "
        f"planned, {planned / found['unshared_bytes']:.1%}"
    )
    yield f"  the document's 24 buffers for this model, each for itself: {found['document_bytes']} bytes"


def run_lines(figures: dict[str, Any]) -> Iterator[str]:
    """The figures of a run for a person; its text was printed before."""
    found = figures["tokens"]
    yield f"tokens: {','.join(map(str, found))}"
    rate, seed = figures["tokens_per_second"], figures["seed"]
    yield (
        f"{count_noun(figures['prompt_tokens'], 'prompt token')} in {figures['prompt_seconds']:.3f} s, "
        f"{count_noun(len(found), 'token')}{'' if rate is None else f' at {rate} a second'}, "
        f"{count_noun(figures['passes'], 'pass', 'passes')}; "
        f"{figures['accepted']} of {count_noun(figures['drafted'], 'drafted token')} accepted"
        f"{'' if seed is None else f'; seed {seed}'}"
    )
    yield (
        f"peak memory: {format_size(figures['device_peak_bytes'])} on the device, "
        f"{format_size(figures['process_peak_bytes'])} of the process"
    )
