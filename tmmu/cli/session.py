"""`tmmu session`: a language model in memory that is planned, proved and made once. spec: FD8.1 to FD8.8"""

from __future__ import annotations

import logging
import math
import os
import resource
import secrets
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import click

from tmmu.cli import options as shared
from tmmu.cli.logged import print_warnings
from tmmu.cli.units import memory
from tmmu.core.errors import TmmuError
from tmmu.core.extras import require_package
from tmmu.core.flags import OnceGroup, existing, format_examples, gather_options
from tmmu.core.output import align_rows, count_noun, format_json, print_lines, print_part, print_text
from tmmu.core.progress import progress

if TYPE_CHECKING:
    from tmmu.foundry.context import Layout
    from tmmu.foundry.sampling import SamplingOptions
    from tmmu.foundry.session import ModelSession
    from tmmu.foundry.tokenizer import PromptTokenizer
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
    click.option("--device", type=click.Choice(["numpy", "fast", "ggml"]), default="numpy", show_default=True,
                 help="The kernels: NumPy's, NumPy's with compiled products (extra fast), or ggml's (extra ggml)."),
    click.option("--threads", type=int, metavar="N",
                 help="The threads of ggml, which its plan binds; by default all processors."),
)  # fmt: skip
"""The options that decide a session's memory, as `SessionOptions`."""


TEMPLATE_LIMIT = 1 << 20
"""The most bytes of a chat template in a file."""


@click.group(cls=OnceGroup)
def session() -> None:
    """Run a language model (GGUF) in memory that is planned, proved and made once."""
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


class Prompt(NamedTuple):
    """A prompt: text or token ids, exactly one of them."""

    text: str | None
    token_ids: str | None

    def read(self, tokenizer: PromptTokenizer | None) -> list[int]:
        """Return its tokens; the tokenizer is needed for text only."""
        if self.token_ids is None:
            assert tokenizer is not None
            return tokenizer.encode(self.text or "")
        try:
            return [int(part) for part in self.token_ids.split(",")]
        except ValueError as error:
            what = f"{self.token_ids[:40]!r} is not a list of token ids, as in 1,450,3118"
            raise click.BadParameter(what, param_hint="--prompt-tokens") from error


def _prompt(prompt: str | None, token_ids: str | None) -> Prompt:
    """Return a prompt. Raises UsageError unless one of the two is given."""
    if (prompt is None) == (token_ids is None):
        raise click.UsageError("give --prompt or --prompt-tokens")
    return Prompt(prompt, token_ids)


prompt_options = gather_options(
    "prompt",
    _prompt,
    click.option("--prompt", help="Text, tokenised with the file's vocabulary."),
    click.option("--prompt-tokens", "token_ids", metavar="IDS", help="Token ids, separated by commas, as they are."),
)
"""The options that state a prompt, as `Prompt`."""
FOLLOW_LOG = click.option(
    "--follow-log", type=shared.record, help="Append each action to this log, for check-models --follow."
)


def _sampling(temperature: float, top_k: int, top_p: float, seed: int | None) -> SamplingOptions:
    """Return how tokens are chosen; without a seed, one is drawn if it has an effect."""
    from tmmu.foundry.sampling import SamplingOptions

    if seed is None:
        seed = secrets.randbits(32) if temperature else 0
    return SamplingOptions(temperature, top_k, top_p, seed)


sampling_options = gather_options(
    "sampling",
    _sampling,
    click.option("--temperature", type=float, default=0.0, show_default=True, metavar="T",
                 help="Draw each token, with logits divided by T; 0 takes the best one."),
    click.option("--top-k", type=int, default=0, metavar="N", help="Draw from the N best tokens only."),
    click.option("--top-p", type=float, default=1.0, metavar="P",
                 help="Draw from the fewest best tokens that together have the probability P."),
    click.option("--seed", type=int, metavar="N", help="The seed of the draws; without it, one is chosen and printed."),
)  # fmt: skip
"""The options that decide how tokens are chosen, as `SamplingOptions`."""
STOPS = click.option("--stop", "stops", multiple=True, metavar="TEXT",
                     help="End before this text; may be given several times.")  # fmt: skip


class End(NamedTuple):
    """Where a run ends: after `most` tokens, at stop strings, or at a token that ends a text."""

    most: int
    ignore_eos: bool
    stops: tuple[str, ...]


end_options = gather_options(
    "end",
    End,
    click.option(
        "--tokens", "most", type=click.IntRange(0), default=32, show_default=True, help="Tokens to generate."
    ),
    click.option("--ignore-eos", is_flag=True, help="Never choose a token that ends a text."),
    STOPS,
)  # fmt: skip
"""The options that decide where a run ends, as `End`."""


@session.command(
    epilog=format_examples(
        "tmmu session run m.gguf --prompt 'Once upon a time' --tokens 40",
        "tmmu session run m.gguf --prompt 'Q: Why?' --temperature 0.8 --top-p 0.95 --seed 7 --stop 'Q:'",
    )
)
@click.argument("model", type=existing)
@prompt_options
@end_options
@sampling_options
@session_options
@FOLLOW_LOG
@FORMAT
def run(
    model: str, prompt: Prompt, end: End, follow_log: str | None, style: str, sampling: SamplingOptions,
    options: SessionOptions,
) -> int:  # fmt: skip
    """Continue a prompt, in memory whose plan is proved first, and print the text as it is made.

    The tokens are the same for every prefill chunk, decode batch, layout and capacity. Ctrl-C prints what there is.

    \b
    Exit codes: 0, 4 no model that can be run or no memory, 2 command line or environment, 70 internal error.
    """
    from tmmu.cli.session_reply import Reply
    from tmmu.cli.session_report import run_lines
    from tmmu.foundry.text_stream import TextStream
    from tmmu.foundry.tokenizer import read_end_tokens

    opened, tokenizer = _open(model, follow_log, options, prompt.text is not None or bool(end.stops))
    tokens = prompt.read(tokenizer)
    stream = None if tokenizer is None else TextStream(tokenizer, end.stops)
    device, counts = opened.model.device, opened.counts
    room = max(opened.context.usable - len(tokens), 0)
    if 0 < room < end.most:
        logging.getLogger("tmmu.foundry").warning(
            "%s and not %d: the context of %d is full then", count_noun(room, "token"), end.most,
            opened.context.usable,
        )  # fmt: skip
    made = device.buffers_made
    reply = Reply(opened, stream, sampling, None if style == "json" else print_part)
    ends = read_end_tokens(opened.model.file)
    is_interrupted = reply.generate(tokens, min(end.most, room), ends, ignore_eos=end.ignore_eos)
    if stream is not None and style != "json":
        print_lines("")
    figures = {
        **reply.list_figures(),
        "prompt_tokens": len(tokens),
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
        "tmmu session chat m.gguf",
        "tmmu session chat m.gguf --system 'Answer in one sentence.' --temperature 0.7 --seed 1",
    )
)
@click.argument("model", type=existing)
@click.option("--system", metavar="TEXT", help="Begin with this message of the system.")
@click.option("--template", type=existing, metavar="FILE", help="A chat template in place of the file's.")
@click.option(
    "--tokens", "count", type=click.IntRange(1), default=512, show_default=True, help="The most tokens of a reply."
)
@STOPS
@sampling_options
@session_options
@FOLLOW_LOG
def chat(
    model: str, system: str | None, template: str | None, count: int, stops: tuple[str, ...], follow_log: str | None,
    sampling: SamplingOptions, options: SessionOptions,
) -> int:  # fmt: skip
    """Talk with a model: each line is a message, and the reply is printed as it is made.

    The file's chat template makes the prompt (packages of the extra foundry). Ctrl-C ends a reply and keeps the
    session; Ctrl-D ends the conversation.

    \b
    Exit codes: 0, 4 no model that can be run or no memory, 2 command line or environment, 70 internal error.
    """
    from tmmu.cli.session_reply import Reply
    from tmmu.core.canonical import read_bounded
    from tmmu.foundry.chat import ChatTemplate, check_content, count_common
    from tmmu.foundry.sampling import Sampler
    from tmmu.foundry.text_stream import TextStream
    from tmmu.foundry.tokenizer import read_end_tokens

    require_package("jinja2", "a chat template", "foundry")
    given = None if template is None else read_bounded(template, TEMPLATE_LIMIT, "INVALID_BINDING")
    text = None if given is None else given.decode(errors="replace")
    opened, tokenizer = _open(model, follow_log, options, True)
    assert tokenizer is not None
    prompts = ChatTemplate(opened.model.file, tokenizer, text)
    ends = read_end_tokens(opened.model.file)
    sampler = Sampler(opened.model.shape.vocab, sampling)
    messages = [] if system is None else [{"role": "system", "content": system}]
    if sampling.temperature:
        print_lines(f"seed {sampling.seed}", err=True)
    for line in _read_lines():
        message = {"role": "user", "content": line}
        try:
            check_content(tokenizer, message)
        except TmmuError as error:
            print_lines(f"error: {error}", err=True)
            continue
        messages.append(message)
        tokens = prompts.encode(messages)
        opened.rewind(min(count_common(opened.text, tokens), len(tokens) - 1))
        reply = Reply(opened, TextStream(tokenizer, stops), sampling, print_part, sampler)
        room = max(opened.context.usable - len(tokens), 0)
        is_interrupted = reply.generate(tokens[len(opened.text) :], min(count, room), ends)
        print_lines("")
        if is_interrupted:
            print_lines("interrupted; the conversation goes on", err=True)
        messages.append({"role": "assistant", "content": reply.text})
    opened.close()
    return 0


def _read_lines() -> Iterator[str]:
    """Yield the lines of the standard input that are not blank, with a prompt on a terminal.

    Raises TmmuError if it is closed, a folder, or not UTF-8. spec: RE3.1
    """
    is_shown = sys.stdin is not None and sys.stdin.isatty()
    while True:
        try:
            line = input("> " if is_shown else "")
        except EOFError:
            return
        except (OSError, RuntimeError, UnicodeError) as error:
            what = "the standard input cannot be read as text"
            raise TmmuError(
                "INVALID_BINDING", what, file="-", fix="give messages in UTF-8, one in each line"
            ) from error
        if line.strip():
            yield line


@session.command(
    epilog=format_examples(
        "tmmu session score m.gguf --prompt 'Once upon a time'",
    )
)
@click.argument("model", type=existing)
@prompt_options
@session_options
@FOLLOW_LOG
@FORMAT
def score(model: str, prompt: Prompt, follow_log: str | None, style: str, options: SessionOptions) -> int:
    """Print the log-probability of each token of a text given those before it, and the perplexity.

    It is computed in tensors of the dynamic memory pool, which is reset after every pass.
    """
    from tmmu.foundry.pool import MemoryPool
    from tmmu.foundry.scoring import compute_log_probabilities

    opened, tokenizer = _open(model, follow_log, options, prompt.text is not None)
    tokens = prompt.read(tokenizer)
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


def _open(
    path: str, follow_log: str | None, options: SessionOptions, needs_vocabulary: bool
) -> tuple[ModelSession, PromptTokenizer | None]:
    """Return a session whose plan set is proved, and the vocabulary.

    The vocabulary is None if it cannot be read and is not needed.
    """
    from tmmu.foundry.session import initialize_session
    from tmmu.foundry.tokenizer import PromptTokenizer
    from tmmu.runtime.events import EventLog
    from tmmu.tasks.language_session import compile_model, plan_session, prepare_session, prove

    shared.check_apart(path, follow_log)
    _require_packages(options)
    if needs_vocabulary:
        require_package("tokenizers", "tokenising a prompt", "foundry")
    with progress(path) as doing:
        doing("planning and proving")
        opened = compile_model(path, options)
        tokenizer: PromptTokenizer | None = None
        try:
            tokenizer = PromptTokenizer(opened.file)
        except TmmuError:
            if needs_vocabulary:
                raise
        events = None if follow_log is None else EventLog(follow_log)
        session = prepare_session(opened, options, events=events)
        initialize_session(session, plan_session(session.forward), prove)
    return session, tokenizer


def _require_packages(options: SessionOptions) -> None:
    """Raise MISSING_PACKAGE for a package that a session of these options needs, before any work is done."""
    require_package("gguf", "reading a GGUF file", "foundry")
    if options.device == "ggml":
        require_package("ggml", "the device ggml", "ggml")
    if options.device == "fast":
        require_package("numba", "the device fast", "fast")
