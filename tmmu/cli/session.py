"""`tmmu session`: a language model in memory that is planned, proved and made once. spec: FD8.1 to FD8.6"""

from __future__ import annotations

import logging
import os
import resource
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from tmmu.cli import options as shared
from tmmu.cli.units import memory, size
from tmmu.core.errors import TmmuError
from tmmu.core.flags import existing
from tmmu.core.output import json_text, print_lines, print_text, progress

if TYPE_CHECKING:
    from tmmu.foundry.compiled import CompiledModel
    from tmmu.open_session import SessionOptions

FORMAT = click.option(
    "--format", "style", type=click.Choice(["text", "json"]), default="text", show_default=True,
    help="How it is printed.",
)  # fmt: skip


def session_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that decide a session's memory."""
    for option in (
        click.option("--strict", is_flag=True, help="Old and new buffers of a growth fit into the budget together."),
        click.option("--initial", type=click.IntRange(1), default=2048, show_default=True, metavar="TOKENS",
                     help="Tokens that the cache has room for at first."),
        click.option("--activations", type=click.Choice(["f16", "f32"]), default="f16", show_default=True,
                     help="The type of what passes between operations; sums are float32."),
        click.option("--kv", "layout", type=click.Choice(["compact", "expanded"]), default="compact", show_default=True,
                     help="The heads of the cache: those of keys and values, or repeated for all of queries."),
        click.option("--budget", callback=memory, metavar="SIZE",
                     help="Memory for keys and values, as in 4GiB; METALLIC_KV_MEMORY_BUDGET_MB if not given."),
        click.option("--context", type=int, metavar="TOKENS", help="The longest sequence; the model's if not given."),
    ):  # fmt: skip
        command = option(command)
    return command


@click.group()
def session() -> None:
    """Run a Llama (GGUF) in memory that is planned, proved and made once."""


@session.command()
@FORMAT
def env(style: str) -> int:
    """Print the variables of the environment: the document's default, the range, and what holds now."""
    from tmmu.cli.session_report import aligned
    from tmmu.foundry.environment import table

    rows = table(os.environ)
    if style == "json":
        print_text(json_text([row._asdict() for row in rows]))
        return 0
    head = ("variable", "default", "range", "now", "what it does")
    print_lines(*aligned([head, *((r.name, r.default, r.range, r.value, r.description) for r in rows)]))
    return 0


@session.command()
@click.argument("model", type=existing)
@session_options
@FORMAT
@click.option("-o", "--output", type=shared.output, help="Write the plan here, and its model to FILE.ir.cbor.")
def plan(model: str, style: str, output: str | None, **given: Any) -> int:
    """Say what fits: the context, the memory of a session, and the plan of its forward pass, proved.

    \b
    Exit codes: 0 PROVED, 1 REFUTED, 3 UNKNOWN, 4 no model that can be run, 2 command line or environment.
    """
    from proofs.verify import formats
    from tmmu.cli.session_report import facts, lines
    from tmmu.ir import files
    from tmmu.open_session import compiled, planned, prepare_session, verdict_on
    from tmmu.plan import file

    doing = progress(model)
    doing("planning")
    prepared = prepare_session(compiled(model), _options(given))
    made = planned(prepared.forward)
    verdict = verdict_on(made, prepared.forward)
    doing("")
    found = facts(prepared, made)
    if style == "json":
        print_text(json_text({**found, "verdict": verdict.verdict, "proved": list(verdict.proved)}))
    else:
        print_lines(*lines(found), *formats.text(verdict))
    if output is not None:
        file.save(made, output)
        files.save(prepared.forward, f"{output}.ir.cbor")
        print_lines(f"wrote {output}", f"wrote {output}.ir.cbor", err=style == "json")
    return verdict.exit


@session.command()
@click.argument("model", type=existing)
@click.option("--prompt", help="Text, tokenised with the file's vocabulary.")
@click.option("--prompt-tokens", "tokens_text", metavar="IDS", help="Token ids, separated by commas, as they are.")
@click.option("--tokens", "count", type=click.IntRange(0), default=32, show_default=True, help="Tokens to generate.")
@click.option("--ignore-eos", is_flag=True, help="Never choose the token that ends a text.")
@session_options
@click.option("--follow-log", type=shared.output, help="Append each action to this log, for check-models --follow.")
@FORMAT
def run(
    model: str, prompt: str | None, tokens_text: str | None, count: int, ignore_eos: bool, follow_log: str | None,
    style: str, **given: Any,
) -> int:  # fmt: skip
    """Continue a prompt greedily, in memory whose plan is proved first.

    The tokens are the same for every prefill chunk, decode batch, layout and capacity. With --format json: tokens,
    text, tokens per second, memory, drafts.

    \b
    Exit codes: 0, 4 no model that can be run or no memory, 2 command line or environment, 70 internal error.
    """
    from tmmu.foundry.session import initialize_session
    from tmmu.foundry.tokenizer import PromptTokenizer
    from tmmu.open_session import compiled, planned, prepare_session, prove
    from tmmu.runtime.events import EventLog

    if (prompt is None) == (tokens_text is None):
        raise click.UsageError("give --prompt or --prompt-tokens")
    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.WARNING)
    doing = progress(model)
    doing("planning and proving")
    opened = compiled(model)
    tokens = _tokens(tokens_text) if tokens_text is not None else PromptTokenizer(opened.file).encode(prompt or "")
    events = None if follow_log is None else EventLog(follow_log)
    made = prepare_session(opened, _options(given), events=events)
    initialize_session(made, planned(made.forward), prove)
    doing("")
    end = opened.file.metadata.get("tokenizer.ggml.eos_token_id")
    stop = end if isinstance(end, int) else None
    written = made.model.device.buffers_made
    begun = time.perf_counter()
    first: float | None = None
    out: list[int] = []
    for token in made.generate(tokens, count, stop=None if ignore_eos else stop, banned=stop if ignore_eos else None):
        first = time.perf_counter() if first is None else first
        out.append(token)
    ended = time.perf_counter()
    text = _text(opened, out)
    device, counts = opened.device, made.counts
    process_peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    figures = {
        "tokens": out,
        "text": text,
        "prompt_tokens": len(tokens),
        "prompt_seconds": round((first or ended) - begun, 6),
        "seconds": round(ended - begun, 6),
        "tokens_per_second": round((len(out) - 1) / (ended - first), 2) if first is not None and len(out) > 1 else None,
        "passes": counts.passes,
        "drafted": counts.drafted,
        "accepted": counts.accepted,
        "capacity": made.cache.capacity,
        "device_peak_bytes": device.peak_bytes,
        "process_peak_bytes": process_peak,
        "buffers_made_in_run": device.buffers_made - written,
    }
    made.close()
    if style == "json":
        print_text(json_text(figures))
        return 0
    rate = figures["tokens_per_second"]
    drafts = f"{counts.accepted} of {counts.drafted} drafted tokens accepted"
    print_lines(
        *([text] if text is not None else []),
        f"tokens: {','.join(map(str, out))}",
        f"{len(tokens)} prompt tokens in {figures['prompt_seconds']:.3f} s, "
        f"{len(out)} tokens{'' if rate is None else f' at {rate} a second'}, {counts.passes} passes; {drafts}",
        f"peak memory: {size(device.peak_bytes)} on the device, {size(process_peak)} of the process",
    )  # fmt: skip
    return 0


def _options(given: dict[str, Any]) -> SessionOptions:
    from tmmu.open_session import SessionOptions

    return SessionOptions(**given)


def _tokens(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise click.BadParameter(f"{text[:40]!r} is not token ids", param_hint="--prompt-tokens") from error


def _text(opened: CompiledModel, tokens: list[int]) -> str | None:
    """The text of tokens, None where the file has no vocabulary that is known."""
    from tmmu.foundry.tokenizer import PromptTokenizer

    try:
        return PromptTokenizer(opened.file).decode(tokens)
    except TmmuError:
        return None
