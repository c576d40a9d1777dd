"""How commands meet their user: help, examples, several models, the standard output, a full disk, names nearly right.

spec: C5.4 to C5.10
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import resource
import shlex
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
import pytest
from click.shell_completion import ShellComplete

from proofs.verify.command import command as verify_plan
from tests.support import set_programs
from tests.support.commands import ran
from tests.support.every_command import context_of, every_command, examples_of
from tmmu import examples
from tmmu.cli.commands import tmmu
from tmmu.cli.entry import run
from tmmu.core.process import run_command
from tmmu.core.progress import progress

CORPUS = Path(__file__).parents[1] / "corpus" / "foreign"
Captured = pytest.CaptureFixture[str]
COMMANDS = every_command()
ENTRIES = {"verify-plan": "proofs.verify.command", "prove-lemmas": "proofs.proving.lemmas.command"}
"""The commands beside tmmu whose examples are run."""
NOT_RUN = {
    "tmmu kernel install": "it builds with Coq",
    "tmmu kernel status": "its exit code says whether one is installed",
    "tmmu example gpt2": "it writes a large model, as test_examples does",
    "tmmu mnemosyne check store --measure": "it measures for half a minute",
    "tmmu session plan": "it takes weights of a language model, as in test_cli_session",
    "tmmu session run": "the same",
    "tmmu session score": "the same",
    "tmmu session chat": "the same",
    "tmmu check-planner": "it takes the user's planner, as in test_testing_programs",
    "tmmu trace torch": "torch may not be installed",
    "tmmu trace jax": "jax may not be installed",
    "tmmu compare unet.onnx --dim batch=1 --as": "onnxruntime may not be installed",
    "tmmu plan unet.onnx --dim batch=1 --as": "the same",
    "tmmu survey chain residual": "it takes a minute",
    "check-models PlanLifecycle": "TLC may not be installed",
    "check-models --follow": "the same",
}
"""Examples whose options alone are looked at, by how they begin, each with the reason."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the model `mlp.onnx`."""
    monkeypatch.chdir(tmp_path)
    examples.write("mico-mlp", "mlp.onnx", 1)
    return tmp_path


@pytest.mark.parametrize("words", COMMANDS)
def test_help_shows_every_default_and_two_examples_and_no_number_of_a_document(words: str) -> None:
    """spec: C5.6"""
    command = COMMANDS[words]
    context = context_of(words, command)
    text = command.get_help(context)
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.is_flag:
            _, shown = parameter.get_help_record(context) or ("", "")
            default = parameter.get_default(context)
            has_default = isinstance(default, (str, int, float)) and default != ""
            assert has_default <= ("[default:" in shown or "; default:" in shown), parameter.opts
    assert examples_of(command), text
    assert all(words in line for line in examples_of(command))
    assert not re.search(r"\b00\d\b|\bdocuments?\b", text)


def test_every_example_of_a_help_text_works(folder: Path, capsys: Captured) -> None:
    """In one folder, after what makes the files that they are about. spec: C5.6"""
    np.save("v.npy", np.random.default_rng(1).standard_normal((16, 32)).astype("f2"))
    for name in ("key", "next"):
        Path(name).write_bytes(bytes(range(32)))
        Path(name).chmod(0o600)
    Path("next").write_bytes(bytes(32))
    Path("models").mkdir()
    dumped = "xla-train-step/step.cpu_after_optimizations"
    for name, given in (
        ("buffers.csv", "minimalloc-touching.csv"), ("model.tflite", "tflite-cnn.tflite"),
        ("step.txt", f"{dumped}.txt"), ("step-buffer-assignment.txt", f"{dumped}-buffer-assignment.txt"),
    ):  # fmt: skip
        Path(name).write_bytes((CORPUS / "proved" / given).read_bytes())
    for name, text in set_programs.MODELS.items():
        Path(f"{name}.ir.txt").write_text(text)
    before = (
        "tmmu example mico-lenet -o lenet.onnx", "tmmu example unet -o unet.onnx",
        "tmmu example mico-mlp -o models/a.onnx", "tmmu example transformer-block -o models/b.onnx",
        "tmmu plan mlp.onnx", "tmmu plan unet.onnx --dim batch=1",
        "tmmu plan unet.onnx --dim batch=1..8 -o wide.plan.cbor",
        "tmmu plan mlp.onnx -o old.plan.cbor", "tmmu plan mlp.onnx -o new.plan.cbor --order memory",
        "tmmu plan models -o plans", "tmmu apply unet.plan.cbor --trace run.trace",
        "tmmu apply unet.plan.cbor --trace again.trace",
        "tmmu plan prefill.ir.txt decode.ir.txt --share kv --share w --donate kv -o session",
        "tmmu example mico-lenet --weights 1 -o digits.onnx", "tmmu plan digits.onnx mlp.onnx --one-memory -o both",
        "tmmu checkpoint unet.plan.cbor -o unet.checkpoint", "tmmu mnemosyne put store v.npy --key key",
    )  # fmt: skip
    for line in before:
        assert answer(line) == 0, line
    asked = 0
    for words, command in sorted(COMMANDS.items(), key=lambda item: item[0].endswith("rekey")):  # it changes the key
        for line in examples_of(command):
            if any(line.startswith(name) for name in NOT_RUN):
                arguments = shlex.split(line)[len(words.split()) :]
                command.make_context(words, arguments, resilient_parsing=True)
                continue
            asked += 1
            if line.startswith("tmmu mnemosyne put store v.npy --key key") and "--append" not in line:
                line = line.replace("store", "other")  # the store is there
            capsys.readouterr()
            assert answer(line) == 0, (line, capsys.readouterr())
    assert asked > 40


def answer(line: str) -> int:
    """The worst exit code of a command line, in which `|` and `>` are those of a shell."""
    line, _, target = line.partition(" > ")
    commands, codes, given = line.split(" | "), [], b""
    for number, words in enumerate(commands):
        name, *arguments = shlex.split(words)
        out = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
        with contextlib.ExitStack() as stack, pytest.MonkeyPatch.context() as patched:
            patched.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
            if target or number < len(commands) - 1:
                stack.enter_context(contextlib.redirect_stdout(out))
            module = ENTRIES.get(name, "proofs.model_check.command")
            codes.append(run(arguments) if name == "tmmu" else run_command(module, arguments))
        given = out.buffer.getvalue()  # type: ignore[attr-defined]
    if target:
        Path(target).write_bytes(given)
    return max(codes)


@pytest.mark.parametrize(
    "arguments",
    [
        ("plan", "mlp.onnx"), ("example", "mico-mlp"), ("example", "text-plan"), ("checkpoint", "mlp.plan.cbor"),
        ("report", "mlp.plan.cbor", "--as", "csv"), ("report", "mlp.plan.cbor", "--as", "c"),
    ],
)  # fmt: skip
def test_a_file_goes_to_the_standard_output_and_all_else_to_the_other(
    folder: Path, capsysbinary: pytest.CaptureFixture[bytes], arguments: tuple[str, ...]
) -> None:
    """spec: C5.4"""
    assert run(["plan", "mlp.onnx"]) == 0
    capsysbinary.readouterr()
    assert run([*arguments, "-o", "file"]) == 0
    printed, _ = capsysbinary.readouterr()
    assert run([*arguments, "-o", "-"]) == 0
    out, err = capsysbinary.readouterr()
    assert out == Path("file").read_bytes()
    assert err.replace(b"wrote -", b"wrote file").split(b"planned in")[0] == printed.split(b"planned in")[0]
    assert not Path("-").exists()


def test_what_is_no_single_file_does_not_go_to_the_standard_output(folder: Path, capsys: Captured) -> None:
    """spec: C5.4"""
    for arguments in (
        ("plan", "mlp.onnx", "mlp.onnx", ".", "-o", "-"), ("apply", "mlp.plan.cbor", "--trace", "-"),
        ("example", "mico-vgg", "--weights", "1", "-o", "-"), ("example", "broken/model-other-size", "-o", "-"),
    ):  # fmt: skip
        run(["example", "mico-lenet", "-o", "lenet.onnx"])
        run(["plan", "mlp.onnx"])
        capsys.readouterr()
        code, out, err = ran(capsys, *arguments)
        assert (code, out) == (2, ""), arguments
        assert err.startswith("error: ")
    assert not list(folder.glob("-*"))


@contextlib.contextmanager
def full(size: int) -> Iterator[None]:
    """A disk on which no file has room for more than `size` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_full_disk_is_named_and_leaves_nothing(folder: Path, capsys: Captured) -> None:
    """spec: C5.9"""
    files = set(folder.iterdir())
    with full(100):
        code, out, err = ran(capsys, "plan", "mlp.onnx", "-o", "m.plan.cbor")
    assert (code, out) == (4, "")
    assert err == "error: m.plan.cbor: cannot be written (File too large); make room, or choose another place\n"
    assert set(folder.iterdir()) == files
    with full(1 << 20):
        assert ran(capsys, "plan", "mlp.onnx", "-o", "m.plan.cbor")[0] == 0


def test_several_models_are_planned_each_with_its_line_and_the_worst_code(folder: Path, capsys: Captured) -> None:
    """spec: C5.7"""
    (folder / "models" / "sub").mkdir(parents=True)
    for name, path in (("mico-lenet", "a.onnx"), ("mico-mlp", "sub/b.onnx"), ("detector", "c.onnx")):
        run(["example", name, "-o", f"models/{path}"])
    capsys.readouterr()
    code, out, err = ran(capsys, "plan", "models", "mlp.onnx")
    planned = [line.split(": wrote ")[0] for line in out.splitlines()]
    assert planned == ["models/a.onnx", "models/sub/b.onnx", "mlp.onnx"]
    assert (code, err.startswith("error: models/c.onnx: ")) == (4, True)
    assert Path("models/sub/b.plan.cbor").read_bytes()[:1] == Path("mlp.plan.cbor").read_bytes()[:1]
    assert not Path("models/c.plan.cbor").exists()
    code, out, err = ran(capsys, "plan", "models/a.onnx", "mlp.onnx", "-o", "plans", "-q")
    assert (code, out, err) == (0, "", "")
    assert sorted(path.name for path in Path("plans").iterdir()) == ["a.plan.cbor", "mlp.plan.cbor"]
    assert Path("plans/mlp.plan.cbor").read_bytes() == Path("mlp.plan.cbor").read_bytes()
    run(["example", "mico-mlp", "-o", "models/sub/a.onnx"])
    for arguments in (("models", "-o", "mlp.onnx"), ("models", "-o", "plans"), ("models", "--events", "log")):
        assert ran(capsys, "plan", *arguments)[0] == 2
    (folder / "empty").mkdir()
    assert "has no file that ends with .onnx or .ir.cbor or .ir.txt" in ran(capsys, "plan", "empty")[2]


def test_a_plan_is_described_for_programs_as_show_has_it(folder: Path, capsys: Captured) -> None:
    """spec: C5.8"""
    code, out, _ = ran(capsys, "plan", "mlp.onnx", "--format", "json")
    (described,) = json.loads(out)["models"]
    (made,) = described["plans"]
    shown = json.loads(ran(capsys, "show", "mlp.plan.cbor", "--format", "json")[1])
    assert (code, described["model"], made.pop("file")) == (0, "mlp.onnx", "mlp.plan.cbor")
    assert made == shown
    run(["example", "detector", "-o", "detector.onnx"])
    capsys.readouterr()
    code, out, err = ran(capsys, "plan", "mlp.onnx", "detector.onnx", "--format", "json")
    assert (code, [set(one) >= {"error"} for one in json.loads(out)["models"]]) == (4, [False, True])
    assert err.startswith("error: detector.onnx: ")


def test_quiet_prints_less_and_verbose_more(folder: Path, capsys: Captured) -> None:
    usual, more = (ran(capsys, "plan", "mlp.onnx", *flags)[1].splitlines() for flags in ((), ("-v",)))
    assert any(re.match(r"  reading [\d.]+ s, planning [\d.]+ s, checking [\d.]+ s$", line) for line in more)
    assert len(more) == len(usual) + 1
    assert ran(capsys, "plan", "mlp.onnx", "-q") == (0, "", "")
    assert ran(capsys, "plan", "mlp.onnx", "-q", "-v")[0] == 2

    def verified(*flags: str) -> tuple[int, list[str]]:
        code = run_command("proofs.verify.command", ["mlp.plan.cbor", *flags])
        return code, capsys.readouterr().out.splitlines()

    assert verified("-q") == (0, verified()[1][:1])
    assert len(verified("-v")[1]) > len(verified()[1]) > 1
    assert verified("-q", "--format", "json")[0] == 2
    run(["example", "broken/in-place-read-later", "-o", "mlp.plan.cbor"])
    capsys.readouterr()
    code, lines = verified("-q")
    assert (code, len(lines), lines[0].split()[0]) == (1, 1, "REFUTED")


@pytest.mark.parametrize(
    ("arguments", "near"),
    [
        (("pln",), "did you mean plan"), (("exmaple",), "did you mean example"), (("zzz",), "the commands are apply, "),
        (("example", "gtp2", "-o", "x"), "did you mean gpt2?"),
        (("explain", "ARENA_TO_SMALL"), "did you mean ARENA_TOO_SMALL"),
        (("plan", "mlp.onnx", "--donate", "layers_2.wieght"), "did you mean layers_2.weight, "),
        (("plan", "mlp.onnx", "--ordr", "memory"), "--order"),
    ],
)  # fmt: skip
def test_a_name_that_is_nearly_right_is_answered_with_the_right_one(
    folder: Path, capsys: Captured, arguments: tuple[str, ...], near: str
) -> None:
    """spec: C5.5"""
    code, out, err = ran(capsys, *arguments)
    assert (code, out) == (2, "")
    assert near in err


def test_a_shell_completes_names_and_files(folder: Path, capsys: Captured) -> None:
    """spec: C5.10"""
    run(["plan", "mlp.onnx"])
    (folder / "mlp.txt").touch()

    def completed(command: click.Command, *words: str) -> list[str]:
        found = ShellComplete(command, {}, "name", "VARIABLE").get_completions(list(words[:-1]), words[-1])
        return [item.value for item in found if item.type == "plain"]

    assert completed(tmmu, "sho") == ["show"]
    assert completed(tmmu, "plan", "--layo") == ["--layout"]
    assert completed(tmmu, "example", "llama-1") == ["llama-15m", "llama-110m"]
    assert completed(tmmu, "explain", "arena_t") == ["ARENA_TOO_SMALL"]
    assert completed(tmmu, "show", "mlp") == ["mlp.onnx", "mlp.plan.cbor"]
    assert completed(tmmu, "report", "mlp") == completed(verify_plan, "ml") == ["mlp.plan.cbor"]
    assert completed(tmmu, "plan", "ml") == ["mlp.onnx"]
    (folder / "mlps").mkdir()  # the shell itself completes what may be a folder
    assert completed(verify_plan, "ml") == completed(verify_plan, "none/x") == []


@pytest.mark.parametrize(
    ("line", "phases"),
    [
        ("tmmu plan mlp.onnx", ["reading", "planning", "checking"]),
        ("tmmu plan mlp.onnx -o - | verify-plan -", ["reading", "checking", "proving with z3", "asking the kernel"]),
        ("tmmu run mlp.onnx --batches 2", ["seed 0, step", "seed 1, step"]),
        ("tmmu survey chain", ["preparing chain", "planning chain, slots", "proving chain, packed"]),
        ("tmmu plan mlp.onnx -o m.plan.cbor | tmmu explain m.plan.cbor --model mlp.onnx", ["reading the model"]),
        ("prove-lemmas zeroing", ["proving"]),
        ("tmmu compare mlp.onnx", ["planning"]),
        ("tmmu export tflite CORPUS/proved/tflite-cnn.tflite -o o.tflite", ["planning", "proving"]),
        ("tmmu import tflite CORPUS/proved/tflite-cnn.tflite -o i.plan.txt", ["reading"]),
        ("tmmu plan mlp.onnx -o m.plan.cbor | tmmu apply m.plan.cbor", ["checking", "mapping and zeroing arenas"]),
        ("tmmu plan mlp.onnx -o m.plan.cbor | tmmu report m.plan.cbor -o m.svg", ["checking", "drawing"]),
    ],
)
def test_long_commands_report_what_they_do(
    folder: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch, line: str, phases: list[str]
) -> None:
    """In this order, and never more done than there is. spec: C5.1"""
    found: list[tuple[str, int, int]] = []

    def noted(_self: object, phase: str, done: int = 0, total: int = 0) -> None:
        found.append((phase, done, total))

    monkeypatch.setattr(progress, "__call__", noted)
    assert answer(line.replace("CORPUS", str(CORPUS))) == 0
    named = iter(phase for phase, _, _ in found)
    assert all(phase in named for phase in phases), found
    assert all(0 <= done <= total or total == 0 for _, done, total in found)
    without = ("tmmu plan mlp.onnx -o m", "tmmu export", "tmmu import")
    assert any(total > 0 for _, _, total in found) or line.startswith(without)


@pytest.mark.parametrize("words", COMMANDS)
def test_an_option_whose_values_do_not_all_count_cannot_be_given_twice(words: str) -> None:
    """spec: C1.14"""
    command = COMMANDS[words]
    for option in command.params:
        if not isinstance(option, click.Option) or option.is_eager:
            continue
        once = [option.opts[-1]] if option.is_flag else [option.opts[-1], "1"]
        says_the_same = option.is_flag and not option.secondary_opts
        context = click.Context(command, info_name=words)
        if option.multiple or option.count or says_the_same:
            with contextlib.suppress(click.UsageError, click.Abort):  # of values, and of what is missing
                command.parse_args(context, once * 2)
            continue
        with pytest.raises(click.UsageError, match=f"{option.opts[-1]} is given 2 times; give it once"):
            command.parse_args(context, once * 2)


def test_what_is_required_adds_up(folder: Path, capsys: Captured) -> None:
    """spec: C1.14"""
    ran(capsys, "plan", "mlp.onnx", "-o", "p.plan.cbor")
    code = run_command(ENTRIES["verify-plan"], ["p.plan.cbor", "--require", "model", "--require", "slot-count"])
    assert code == 3
    assert "model" in capsys.readouterr().out.split("UNKNOWN")[1]
