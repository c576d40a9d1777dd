"""`tmmu session` on files: what it prints as JSON, writes and refuses. What it prints as text is in a snapshot."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import ran
from tests.support.plain_llama import PlainLlama
from tests.support.small_llama import SMALL, file_of
from tmmu.core.output import escape_line
from tmmu.foundry.environment import VARIABLES
from tmmu.foundry.graph import ExecutionGraph
from tmmu.foundry.session import ModelSession
from tmmu.foundry.shapes import open_llama
from tmmu.foundry.tokenizer import PromptTokenizer

PROMPT = [1, 5, 7, 5, 7, 11]
IDS = ",".join(map(str, PROMPT))


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("METALLIC_")]:
        monkeypatch.delenv(name)


def answered(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """What a command prints as JSON."""
    code, out, _ = ran(capsys, "session", *arguments, "--format", "json")
    assert code == 0
    return json.loads(out)


def test_a_run_states_its_tokens_text_speed_memory_and_drafts(capsys: pytest.CaptureFixture[str]) -> None:
    """spec: FD8.1, FD6.4"""
    found = answered(capsys, "run", str(file_of()), "--prompt-tokens", IDS, "--tokens", "20")
    assert found["tokens"] == PlainLlama(open_llama(file_of())).greedy(PROMPT, 20)
    assert found["text"] == PromptTokenizer(open_llama(file_of())).decode(found["tokens"])
    assert (found["prompt_tokens"], found["buffers_made"]) == (len(PROMPT), 0)
    assert found["tokens_per_second"] > 0
    assert 0 <= found["accepted"] <= found["drafted"]
    assert found["passes"] == 1 + 19 - found["accepted"]
    assert 0 < found["device_peak_bytes"] < found["process_peak_bytes"]


def test_a_prompt_is_tokenised_by_the_files_vocabulary(capsys: pytest.CaptureFixture[str]) -> None:
    """spec: FD8.1"""
    tokens = PromptTokenizer(open_llama(file_of())).encode("to be")
    found = answered(capsys, "run", str(file_of()), "--prompt", "to be", "--tokens", "5", "--activations", "f32")
    assert found["tokens"] == PlainLlama(open_llama(file_of()), activation_of("f32")).greedy(tokens, 5)


def activation_of(name: str) -> type:
    """NumPy's type of an option."""
    import numpy as np

    return {"f16": np.float16, "f32": np.float32}[name]


def test_a_run_ends_with_the_text_or_the_context(capsys: pytest.CaptureFixture[str]) -> None:
    """The token that ends a text is 2 in the small model; --ignore-eos never chooses it. spec: FD8.1"""
    path = str(file_of())
    for count in (0, 1):
        assert len(answered(capsys, "run", path, "--prompt-tokens", IDS, "--tokens", str(count))["tokens"]) == count
    code, out, err = ran(
        capsys, "session", "run", path, "--prompt-tokens", IDS, "--context", "128", "--tokens", "500", "--ignore-eos",
        "--format", "json",
    )  # fmt: skip
    assert (code, len(json.loads(out)["tokens"])) == (0, 128 - len(PROMPT))
    assert "122 tokens and not 500" in err
    assert 2 not in json.loads(out)["tokens"]


def test_scores_are_those_of_the_session(capsys: pytest.CaptureFixture[str]) -> None:
    """spec: FD8.6"""
    found = answered(capsys, "score", str(file_of()), "--prompt-tokens", IDS)
    assert (len(found["log_probabilities"]), found["tokens"]) == (len(PROMPT) - 1, PROMPT)
    assert all(value < 0 for value in found["log_probabilities"])
    assert answered(capsys, "score", str(file_of()), "--prompt-tokens", "1")["perplexity"] is None


def test_the_plan_set_and_its_models_are_files_of_which_the_verifier_says_the_same(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """And a plan whose file is changed is refused. spec: FD8.2, FD8.3"""
    from proofs.verify.entry import run as verify_plan

    folder = tmp_path / "p"
    code, out, err = ran(capsys, "session", "plan", str(file_of()), "-o", str(folder), "--format", "json")
    found = json.loads(out)
    assert (code, found["verdict"], err.count("wrote")) == (0, "PROVED", 5)
    assert [one["verdict"] for one in found["plans"].values()] == ["PROVED", "PROVED"]
    assert found["steady_bytes"] == sum(r["bytes"] for r in found["memory"] if not r["note"].endswith("at first"))
    assert found["unshared_bytes"] > next(r["bytes"] for r in found["memory"] if r["what"] == "intermediates")
    check = [str(folder), "--models", str(folder), "--donate", "cache.*"]
    assert f"verify-plan {folder} --models {folder} --donate 'cache.*'" in err
    assert verify_plan(check) == 0
    other = tmp_path / "q"
    assert ran(capsys, "session", "plan", str(file_of()), "-o", str(other), "--activations", "f32")[0] == 0
    for name in ("prefill.cbor", "decode.cbor"):
        (folder / name).write_bytes((other / name).read_bytes())
    assert verify_plan(check) == 1


def test_the_environment_is_printed_and_decides(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec: FD8.4, FD7.1"""
    rows = answered(capsys, "env")
    assert [row["name"] for row in rows] == [variable.name for variable in VARIABLES]
    monkeypatch.setenv("METALLIC_KV_MEMORY_BUDGET_MB", "1")
    assert {row["name"]: row["value"] for row in answered(capsys, "env")}["METALLIC_KV_MEMORY_BUDGET_MB"] == "1"
    found = answered(capsys, "plan", str(file_of()))["context"]
    assert (found["budget"], found["budget_source"]) == (1 << 20, "METALLIC_KV_MEMORY_BUDGET_MB")


@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        (["plan", "MODEL", "--budget", "1KiB"], 2, "--budget"),
        (["plan", "MODEL", "--context", "-1"], 2, "--context"),
        (["plan", "MODEL", "--budget", "much"], 2, "--budget"),
        (["run", "MODEL", "--prompt-tokens", "1,x"], 2, "--prompt-tokens"),
        (["run", "MODEL", "--prompt-tokens", f"{SMALL.vocab}"], 2, "the prompt"),
        (["run", "MODEL", "--prompt", "a", "--prompt-tokens", "1"], 2, "--prompt"),
        (["run", "MODEL", "--prompt-tokens", "1,2,3", "--context", "2"], 4, "context of 2"),
        (["run", "README.md", "--prompt-tokens", "1"], 4, "README.md"),
        (["run", "none.gguf", "--prompt-tokens", "1"], 2, "none.gguf"),
        (["score", "MODEL"], 2, "--prompt"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_line_with_its_name(
    arguments: list[str], code: int, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """spec: FD8.5"""
    ended, out, err = ran(capsys, "session", *[str(file_of()) if a == "MODEL" else a for a in arguments])
    assert (ended, out) == (code, "")
    assert named in err
    assert [line for line in err.splitlines() if not line.startswith("warning: ")] == [err.splitlines()[-1]]


@pytest.mark.parametrize("option", [["plan", "-o", "MODEL"], ["run", "--prompt-tokens", "1", "--follow-log", "MODEL"]])
def test_the_model_is_never_written_over(option: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """spec: FD8.5"""
    model = tmp_path / "m.gguf"
    model.write_bytes(file_of().read_bytes())
    name, *rest = option
    ended, _, err = ran(capsys, "session", name, str(model), *[str(model) if a == "MODEL" else a for a in rest])
    assert (ended, "named twice" in err or "is a file" in err) == (2, True)
    assert model.read_bytes() == file_of().read_bytes()


def test_an_interrupted_run_prints_what_there_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec: FD8.1"""
    generate = ModelSession.generate

    def interrupted(self: ModelSession, *arguments: Any, **more: Any) -> Iterator[int]:
        yield from islice(generate(self, *arguments, **more), 3)
        raise KeyboardInterrupt

    monkeypatch.setattr(ModelSession, "generate", interrupted)
    code, out, err = ran(capsys, "session", "run", str(file_of()), "--prompt-tokens", IDS, "--format", "json")
    assert json.loads(out)["tokens"] == PlainLlama(open_llama(file_of())).greedy(PROMPT, 3)
    assert (code, err.strip()) == (130, "interrupted")


def test_a_text_ends_at_a_stop_string_and_is_drawn_again_with_its_seed(capsys: pytest.CaptureFixture[str]) -> None:
    """spec: FD8.1, FD11.2, FD11.5"""
    ask = ["run", str(file_of()), "--prompt-tokens", IDS, "--tokens", "30", "--temperature", "0.8", "--top-k", "50"]
    found = answered(capsys, *ask)
    again = answered(capsys, *ask, "--seed", str(found["seed"]))
    assert again["tokens"] == found["tokens"]
    assert (found["stopped_by"], len(found["tokens"])) == (None, 30)
    stop = found["text"][8:11]
    cut = answered(capsys, *ask, "--seed", str(found["seed"]), "--stop", stop, "--stop", "never in it")
    assert (cut["text"], cut["stopped_by"]) == (found["text"][: found["text"].index(stop)], stop)
    assert cut["tokens"] == found["tokens"][: len(cut["tokens"])]
    assert len(cut["tokens"]) < 30
    assert answered(capsys, "run", str(file_of()), "--prompt-tokens", IDS, "--seed", "3")["seed"] is None


def test_text_is_printed_while_it_is_made(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part before the next pass begins. spec: FD11.4"""
    events: list[str] = []
    run_pass = ExecutionGraph.run

    def noted(self: ExecutionGraph, *arguments: Any) -> None:
        events.append("pass")
        run_pass(self, *arguments)

    monkeypatch.setattr(ExecutionGraph, "run", noted)
    monkeypatch.setattr("tmmu.cli.session.print_part", lambda text: events.append(f"text {text}"))
    assert ran(capsys, "session", "run", str(file_of()), "--prompt-tokens", IDS, "--tokens", "6")[0] == 0
    assert events.count("pass") >= 3
    assert any(events[k].startswith("text") and events[k + 1] == "pass" for k in range(len(events) - 1))
    text = "".join(event[5:] for event in events if event.startswith("text"))
    assert text == answered(capsys, "run", str(file_of()), "--prompt-tokens", IDS, "--tokens", "6")["text"]


TEMPLATE = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}[assistant]"


def talk(monkeypatch: pytest.MonkeyPatch, lines: list[str]) -> None:
    """Let the standard input have these lines."""
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))


def test_a_conversation_goes_on_in_one_session(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Replies are those to the whole conversation, and only its new part is computed. spec: FD8.8, FD11.7, FD11.8"""
    template = tmp_path / "t.jinja"
    template.write_text(TEMPLATE)
    talk(monkeypatch, ["hello there", "", "what <s> is it", "and now"])
    rows: list[int] = []
    run_pass = ExecutionGraph.run

    def counted(self: ExecutionGraph, name: str, count: int, outputs: int) -> None:
        rows.append(count)
        run_pass(self, name, count, outputs)

    monkeypatch.setattr(ExecutionGraph, "run", counted)
    options = ["--template", str(template), "--tokens", "8", "--system", "be brief", "--context", "512"]
    code, out, err = ran(capsys, "session", "chat", str(file_of()), *options)
    assert (code, err.count("control token")) == (0, 1)
    computed = sum(rows)
    tokenizer = PromptTokenizer(open_llama(file_of()))
    shown = "\n\t"
    prompt, wanted = "[system] be brief\n[user] hello there\n[assistant]", ""
    for further in ("and now", None):
        tokens = tokenizer.encode(prompt, has_controls=True)
        found = PlainLlama(open_llama(file_of())).greedy(tokens, 8)
        found = found[: found.index(2) + 1] if 2 in found else found
        reply = tokenizer.decode(found)
        wanted += f"{''.join(c if c in shown else escape_line(c) for c in reply)}\n"
        prompt += f" {reply}\n[user] {further}\n[assistant]"
    assert out == wanted
    assert computed < len(tokens) + 40


@pytest.mark.parametrize("given", [None, io.TextIOWrapper(io.BytesIO(b"\xff\n"), "utf-8")])
def test_messages_that_cannot_be_read_are_one_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: io.TextIOWrapper | None
) -> None:
    """spec: RE3.1"""
    template = tmp_path / "t.jinja"
    template.write_text(TEMPLATE)
    monkeypatch.setattr(sys, "stdin", given)
    code, out, err = ran(capsys, "session", "chat", str(file_of()), "--template", str(template), "--context", "512")
    assert (code, out) == (2, "")
    assert "the standard input cannot be read as text" in err


def test_ctrl_c_ends_a_reply_and_keeps_the_conversation(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """spec: FD8.8, FD11.9"""
    template = tmp_path / "t.jinja"
    template.write_text(TEMPLATE)
    talk(monkeypatch, ["hello", "and now"])
    parts: list[str] = []

    def interrupt(text: str) -> None:
        parts.append(text)
        if len(parts) == 3:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("tmmu.cli.session.print_part", interrupt)
    options = ["--template", str(template), "--tokens", "12", "--context", "512"]
    code, _, err = ran(capsys, "session", "chat", str(file_of()), *options)
    assert (code, err.count("the conversation goes on")) == (0, 1)
    tokenizer = PromptTokenizer(open_llama(file_of()))
    first = "".join(parts[:3])
    prompt = f"[user] hello\n[assistant] {first}\n[user] and now\n[assistant]"
    found = PlainLlama(open_llama(file_of())).greedy(tokenizer.encode(prompt, has_controls=True), 12)
    assert "".join(parts[3:]) == tokenizer.decode(found[: found.index(2) + 1] if 2 in found else found)


def test_a_model_without_a_template_is_one_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec: FD8.8"""
    talk(monkeypatch, ["hello"])
    code, out, err = ran(capsys, "session", "chat", str(file_of()))
    assert (code, out) == (4, "")
    assert err.count("\n") == 1
    assert "no chat template" in err
