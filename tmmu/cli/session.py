"""`tmmu session`: a language model in memory that is planned, proved and made once. spec: FD8.1 to FD8.7"""

from __future__ import annotations

import logging
import math
import os
import resource
import time
from typing import TYPE_CHECKING

import click

from tmmu.cli import options as shared
from tmmu.cli.logged import print_warnings
from tmmu.cli.units import memory
from tmmu.core.errors import TmmuError
from tmmu.core.extras import require_package
from tmmu.core.flags import OnceGroup, existing, format_examples, gather_options
from tmmu.core.output import align_rows, count_noun, format_json, print_lines, print_text
from tmmu.core.progress import progress

if TYPE_CHECKING:
    from tmmu.foundry.compiled import CompiledModel
    from tmmu.foundry.context import Layout
    from tmmu.foundry.session import ModelSession
    from tmmu.tasks.language_session import SessionOptions

FORMAT = click.option(
    "--format", "style", type=click.Choice(["text", "json"]), default="text", show_default=True,
    help="How it is printed.",
)  # fmt: skip


def _options(
    context: int | None, budget: int | None, layout: Layout, activations: str | None, initial: int, strict: bool,
    device: str, threads: int | None,
) -> SessionOptions:  # fmt: skip
    """Return what a session takes."""
    from tmmu.tasks.language_session import SessionOptions

    return SessionOptions(
        context=context, budget=budget, layout=layout, activations=activations, initial=initial, strict=strict,
        device=device, threads=threads,
    )  # fmt: skip


session_options = gather_options(
    "options",
    _options,
    click.option("--context", type=int, metavar="TOKENS", help="The longest sequence; the model's if not given."),
    click.option("--budget", callback=memory, metavar="SIZE",
                 help="Memory for keys and values, as in 4GiB; METALLIC_KV_MEMORY_BUDGET_MB if not given."),
    click.option("--kv", "layout", type=click.Choice(["compact", "expanded"]), default="compact", show_default=True,
                 help="The heads of the cache: those of keys and values, or repeated for all of queries."),
    click.option("--activations", type=click.Choice(["f16", "f32"]),
                 help="The type of what passes between operations; sums are float32. By default f16, with ggml f32."),
    click.option("--initial", type=click.IntRange(1), default=2048, show_default=True, metavar="TOKENS",
                 help="Tokens that the cache has room for at first."),
    click.option("--strict", is_flag=True, help="Old and new buffers of a growth fit into the budget together."),
    click.option("--device", type=click.Choice(["numpy", "ggml"]), default="numpy", show_default=True,
                 help="The kernels: NumPy's, or ggml's in the same planned memory (extra ggml)."),
    click.option("--threads", type=int, metavar="N",
                 help="The threads of ggml, which its plan binds; by default all processors."),
)  # fmt: skip
"""The options that decide a session's memory, as `SessionOptions`."""


@click.group(cls=OnceGroup)
def session() -> None:
    """Run a Llama (GGUF) in memory that is planned, proved and made once."""
    print_warnings("tmmu.foundry")


@session.command(
    epilog=format_examples(
        "tmmu session env",
        "tmmu session env --format json",
    )
)
@FORMAT
def env(style: str) -> int:
    """Print the variables of the environment: the default, the range, and what holds now."""
    from tmmu.foundry.environment import list_settings

    rows = list_settings(os.environ)
    if style == "json":
        print_text(format_json([row._asdict() for row in rows]))
        return 0
    head = ("variable", "default", "range", "now", "what it does")
    print_lines(*align_rows([head, *((r.name, r.default, r.range, r.value, r.description) for r in rows)]))
    return 0


@session.command(
    epilog=format_examples(
        "tmmu session plan m.gguf --context 8192 --budget 4GiB",
        "tmmu session plan m.gguf -o session",
    )
)
@click.argument("model", type=existing)
@session_options
@FORMAT
@click.option("-o", "--output", type=click.Path(file_okay=False), metavar="FOLDER",
              help="Write the plan set of prefill and decode here, and the model of each.")  # fmt: skip
def plan(model: str, options: SessionOptions, style: str, output: str | None) -> int:
    """Say what fits: the context, the memory of a session, and the plans of prefill and decode, proved.

    \b
    Both run in the same buffers and change the same keys and values: they are a plan set.
    Exit codes: 0 PROVED, 1 REFUTED, 3 UNKNOWN, 4 no model that can be run, 2 command line or environment.
    """
    from proofs.verify import text as verdict_text
    from proofs.verify.verdict import PROVED
    from tmmu.cli.session_report import facts, lines
    from tmmu.foundry.forward import SHARED
    from tmmu.tasks.language_session import compile_model, plan_session, prepare_session, verdicts_on, write_session

    _require_packages(options)
    with progress(model) as doing:
        doing("planning")
        prepared = prepare_session(compile_model(model, options), options)
        made = plan_session(prepared.forward)
        doing("proving")
        verdicts = verdicts_on(made, prepared.forward)
    found, whole = facts(prepared, made), verdicts[-1]
    if style == "json":
        each = {one.file: {"verdict": one.verdict, "proved": list(one.proved)} for one in verdicts[:-1]}
        print_text(format_json({**found, "verdict": whole.verdict, "proved": list(whole.proved), "plans": each}))
    else:
        print_lines(*lines(found), *(line for one in verdicts for line in verdict_text.lines(one)))
    if output is not None:
        paths = write_session(made, prepared.forward, output)
        check = f"verify it: verify-plan {output} --models {output} --donate '{SHARED}'"
        print_lines(*(f"wrote {path}" for path in paths), check, err=style == "json")
    return next((one.exit for one in verdicts if one.verdict != PROVED), whole.exit)


PROMPT = click.option("--prompt", help="Text, tokenised with the file's vocabulary.")
PROMPT_TOKENS = click.option(
    "--prompt-tokens", "token_ids", metavar="IDS", help="Token ids, separated by commas, as they are."
)
FOLLOW_LOG = click.option(
    "--follow-log", type=shared.record, help="Append each action to this log, for check-models --follow."
)


@session.command(
    epilog=format_examples(
        "tmmu session run m.gguf --prompt 'Once upon a time' --tokens 40",
        "tmmu session run m.gguf --prompt-tokens 1,450,3118 --kv expanded",
    )
)
@click.argument("model", type=existing)
@PROMPT
@PROMPT_TOKENS
@click.option("--tokens", "count", type=click.IntRange(0), default=32, show_default=True, help="Tokens to generate.")
@click.option("--ignore-eos", is_flag=True, help="Never choose the token that ends a text.")
@session_options
@FOLLOW_LOG
@FORMAT
def run(
    model: str, prompt: str | None, token_ids: str | None, count: int, ignore_eos: bool, follow_log: str | None,
    style: str, options: SessionOptions,
) -> int:  # fmt: skip
    """Continue a prompt greedily, in memory whose plan is proved first.

    The tokens are the same for every prefill chunk, decode batch, layout and capacity. Ctrl-C prints what there is.

    \b
    Exit codes: 0, 4 no model that can be run or no memory, 2 command line or environment, 70 internal error.
    """
    from tmmu.cli.session_report import run_lines

    opened, tokens = _ready(model, prompt, token_ids, follow_log, options)
    device, counts = opened.model.device, opened.counts
    room = max(opened.context.usable - len(tokens), 0)
    if 0 < room < count:
        logging.getLogger("tmmu.foundry").warning(
            "%s and not %d: the context of %d is full then", count_noun(room, "token"), count, opened.context.usable
        )
    end = opened.model.file.metadata.get("tokenizer.ggml.eos_token_id")
    stop = end if isinstance(end, int) else None
    made = device.buffers_made
    begun = time.perf_counter()
    first: float | None = None
    found: list[int] = []
    going = opened.generate(
        tokens, min(count, room), stop=None if ignore_eos else stop, banned=stop if ignore_eos else None
    )
    is_interrupted = False
    try:
        for token in going:
            first = time.perf_counter() if first is None else first
            found.append(token)
    except KeyboardInterrupt:  # what there is by now is printed
        is_interrupted = True
    ended = time.perf_counter()
    figures = {
        "tokens": found,
        "text": _text(opened.model, found),
        "prompt_tokens": len(tokens),
        "prompt_seconds": round((first or ended) - begun, 6),
        "seconds": round(ended - begun, 6),
        "tokens_per_second": None if first is None or len(found) < 2 else round((len(found) - 1) / (ended - first), 2),
        "passes": counts.passes,
        "drafted": counts.drafted,
        "accepted": counts.accepted,
        "capacity": opened.cache.capacity,
        "device_peak_bytes": device.peak_bytes,
        "process_peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "buffers_made": device.buffers_made - made,
    }
    opened.close()
    if style == "json":
        print_text(format_json(figures))
    else:
        print_lines(*run_lines(figures))
    if is_interrupted:
        raise KeyboardInterrupt
    return 0


@session.command(
    epilog=format_examples(
        "tmmu session score m.gguf --prompt 'Once upon a time'",
    )
)
@click.argument("model", type=existing)
@PROMPT
@PROMPT_TOKENS
@session_options
@FOLLOW_LOG
@FORMAT
def score(
    model: str, prompt: str | None, token_ids: str | None, follow_log: str | None, style: str, options: SessionOptions
) -> int:
    """Print the log-probability of each token of a text given those before it, and the perplexity.

    It is computed in tensors of the dynamic memory pool, which is reset after every pass.
    """
    from tmmu.foundry.pool import MemoryPool
    from tmmu.foundry.scoring import compute_log_probabilities

    opened, tokens = _ready(model, prompt, token_ids, follow_log, options)
    pool = MemoryPool(opened.model.device, events=opened.events)
    found = list(compute_log_probabilities(opened, tokens, pool))
    perplexity = math.exp(-sum(found) / len(found)) if found else None
    pool.close()
    opened.close()
    if style == "json":
        print_text(format_json({"tokens": tokens, "log_probabilities": found, "perplexity": perplexity}))
        return 0
    print_lines(
        *(f"{token}  {value:.4f}" for token, value in zip(tokens[1:], found, strict=True)),
        *([] if perplexity is None else [f"perplexity {perplexity:.4f} of {count_noun(len(found), 'token')}"]),
    )
    return 0


def _ready(
    path: str, prompt: str | None, token_ids: str | None, follow_log: str | None, options: SessionOptions
) -> tuple[ModelSession, list[int]]:
    """Return a session whose plan set is proved, and the prompt's tokens."""
    from tmmu.foundry.session import initialize_session
    from tmmu.foundry.tokenizer import PromptTokenizer
    from tmmu.runtime.events import EventLog
    from tmmu.tasks.language_session import compile_model, plan_session, prepare_session, prove

    if (prompt is None) == (token_ids is None):
        raise click.UsageError("give --prompt or --prompt-tokens")
    shared.check_apart(path, follow_log)
    _require_packages(options)
    if prompt is not None:
        require_package("tokenizers", "tokenising a prompt", "foundry")
    with progress(path) as doing:
        doing("planning and proving")
        opened = compile_model(path, options)
        tokens = _tokens(token_ids) if token_ids is not None else PromptTokenizer(opened.file).encode(prompt or "")
        events = None if follow_log is None else EventLog(follow_log)
        session = prepare_session(opened, options, events=events)
        initialize_session(session, plan_session(session.forward), prove)
    return session, tokens


def _require_packages(options: SessionOptions) -> None:
    """Raise MISSING_PACKAGE for a package that a session of these options needs, before any work is done."""
    require_package("gguf", "reading a GGUF file", "foundry")
    if options.device == "ggml":
        require_package("ggml", "the device ggml", "ggml")


def _tokens(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        what = f"{text[:40]!r} is not a list of token ids, as in 1,450,3118"
        raise click.BadParameter(what, param_hint="--prompt-tokens") from error


def _text(opened: CompiledModel, tokens: list[int]) -> str | None:
    """Return the text of tokens, or None if the file lacks a known vocabulary."""
    from tmmu.foundry.tokenizer import PromptTokenizer

    try:
        return PromptTokenizer(opened.file).decode(tokens)
    except TmmuError:
        return None
