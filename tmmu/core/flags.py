"""Options of the commands: bindings (--dim NAME=SIZE, --shape NAME=1x3x640x640, --value NAME=TEXT), files and folders.

A command whose options belong together takes each group of them as one object (`gather_options`).
spec: C1.6, C1.14, C4.3, C4.5, T10.7
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, NamedTuple, TypeVar

import click
from click.shell_completion import CompletionItem

from tmmu.core.kind import MANIFEST, is_set
from tmmu.core.output import STANDARD, is_taken, list_names, parse_size, take_standard_output
from tmmu.core.vocabulary import RUNTIMES, UINT64_END, Bindings, FixedByte, RuntimeGraph, SteppedDim

Command = TypeVar("Command", bound=Callable[..., Any])
Decorator = Callable[[Any], Any]

existing = click.Path(exists=True, dir_okay=False)
"""An existing file; click exits with 2 if it does not exist, or is a directory."""
PLAN_SUFFIXES = (".plan.cbor", ".plan.txt")
"""The suffixes of plans in a folder."""
MODEL_SUFFIXES = (".onnx", ".ir.cbor", ".ir.txt")
"""The suffixes of models in a folder."""
DUMP_SUFFIXES = ("-buffer-assignment.txt", ".inductor", ".iree", ".pte", ".relax", ".tflite")
"""The suffixes of files with plans of other producers, for completion only: content decides."""


def stem_of_plan(path: str) -> str:
    """Return the name of a plan's file without its suffix; upper case counts as lower.

    >>> stem_of_plan("a/m.PLAN.cbor"), stem_of_plan("m.rank0.cbor"), stem_of_plan("m")
    ('m', 'm.rank0', 'm')
    """
    name = os.path.basename(path)
    suffix = next((known for known in PLAN_SUFFIXES if name.lower().endswith(known)), os.path.splitext(name)[1])
    return name.removesuffix(name[len(name) - len(suffix) :])


def stem_of_model(path: str) -> str:
    """Return the name of a model's file without what says its kind; upper case counts as lower.

    >>> stem_of_model("a/m.ir.cbor"), stem_of_model("m.ONNX"), stem_of_model("m.v2.ir.txt")
    ('m', 'm', 'm.v2')
    """
    name = os.path.basename(path)
    for suffix in (".cbor", ".txt", ".ir", ".onnx"):
        if name.lower().endswith(suffix):
            name = name[: -len(suffix)]
    return name


SETTINGS = {"help_option_names": ["-h", "--help"], "show_default": True}
"""Settings of each command and its subcommands: the defaults of all options are shown."""


def format_examples(*lines: str) -> str:
    """Return the end of a help text: command lines that a test runs. spec: C5.6"""
    return "\n".join(("\b", "Examples:", *(f"  {line}" for line in lines)))


LINKED, NOT_TAKEN, UNREADABLE = "linked folder", "another kind of file", "cannot be read"
"""Why something in a folder is skipped."""


class SkippedFile(NamedTuple):
    """Something in a folder that is skipped, with the reason: `LINKED`, `NOT_TAKEN` or `UNREADABLE`."""

    path: str
    reason: str


class Listing(NamedTuple):
    """The files that an argument means, and what is skipped of a folder, each in the order of their names."""

    files: list[str]
    skipped: list[SkippedFile]
    is_folder: bool = False


def list_folder(folder: str, is_taken: Callable[[str], bool]) -> Listing:
    """List the files of a folder at any depth; those for which `is_taken` returns True are meant.

    Folders that are symbolic links are not entered, so that no file is met twice or from outside; they are listed as
    skipped. Raises OSError for a folder that cannot be read. O(n log n) in the files. spec: C1.13, C1.17
    """

    def fail(error: OSError) -> None:
        raise error

    taken: list[str] = []
    skipped: list[SkippedFile] = []
    for inside, folders, names in os.walk(folder, onerror=fail):
        links = (path for name in folders if os.path.islink(path := os.path.join(inside, name)))
        skipped += (SkippedFile(path, LINKED) for path in links)
        for name in names:
            path = os.path.join(inside, name)
            if is_taken(path):
                taken.append(path)
            else:
                skipped.append(SkippedFile(path, NOT_TAKEN if os.access(path, os.R_OK) else UNREADABLE))
    return Listing(sorted(taken), sorted(skipped), is_folder=True)


class File(click.Path):
    """An existing file, of any name. A shell completes folders, and files with one of the suffixes."""

    def __init__(self, suffixes: tuple[str, ...], *, folder: bool = False) -> None:
        super().__init__(exists=True, dir_okay=folder)
        self.suffixes = suffixes

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Complete files that begin this way; without any, what the shell completes by itself. spec: C5.10"""
        folder, begun = os.path.split(incomplete)
        try:
            names = sorted(name for name in os.listdir(folder or ".") if name.startswith(begun))
        except OSError:
            names = []
        fitting = [name for name in names if name.endswith(self.suffixes)]
        if not fitting or any(os.path.isdir(os.path.join(folder, name)) for name in names):
            return super().shell_complete(ctx, param, incomplete)
        return [CompletionItem(os.path.join(folder, name)) for name in fitting]


class Files(File):
    """A file, or a folder: a list of files. The files of a folder are in the order of their names, at any depth.

    Only files with one of the suffixes, in upper or lower case, count in a folder, and those for which `belongs`
    returns True; messages call these `other`. With `belongs`, `-` is the standard input.
    """

    def __init__(
        self, suffixes: tuple[str, ...], belongs: Callable[[str], bool] | None = None, other: str = ""
    ) -> None:
        super().__init__(suffixes, folder=True)
        self.allow_dash, self.belongs, self.other = belongs is not None, belongs, other

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a `Listing`. Raises BadParameter for a folder without any file that counts, or that cannot be read."""
        found = str(super().convert(value, param, ctx))
        if not os.path.isdir(found):
            return Listing([found], [])
        try:
            listing = list_folder(found, self._counts)
        except OSError as error:
            self.fail(f"{error.filename!r} cannot be read ({error.strerror})", param, ctx)
        if not listing.files:
            other = f", and no {self.other}" if self.other else ""
            linked = [skipped.path for skipped in listing.skipped if skipped.reason == LINKED]
            other += f"; not entered are the linked folders {list_names(linked)}" if linked else ""
            self.fail(f"{found!r} has no file that ends with {' or '.join(self.suffixes)}{other}", param, ctx)
        return listing

    def _counts(self, path: str) -> bool:
        """Decide whether a file in a folder counts."""
        return path.lower().endswith(self.suffixes) or (self.belongs is not None and self.belongs(path))


class SetFolder(click.Path):
    """The folder of a plan set that is read."""

    def __init__(self) -> None:
        super().__init__(exists=True, file_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path. Raises BadParameter for a folder without a manifest."""
        found = os.fsdecode(super().convert(value, param, ctx))
        if not is_set(found):
            self.fail(f"{found!r} is a folder without {MANIFEST}: name the folder of a plan set", param, ctx)
        return found


class FileOrSet(File):
    """A file as `File` has it, or the folder of a plan set."""

    def __init__(self, suffixes: tuple[str, ...]) -> None:
        super().__init__(suffixes, folder=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path. Raises BadParameter for a folder without a manifest."""
        found = os.fsdecode(super().convert(value, param, ctx))
        if os.path.isdir(found) and not is_set(found):
            self.fail(f"{found!r} is a folder without {MANIFEST}: name a file, or the folder of a plan set", param, ctx)
        return found


plan_file, model_file, plan_or_set = File(PLAN_SUFFIXES), File(MODEL_SUFFIXES), FileOrSet(PLAN_SUFFIXES)
"""A plan, a model, or a plan or a plan set, that is read."""
plan_or_dump = File((*PLAN_SUFFIXES, *DUMP_SUFFIXES), folder=True)
"""A plan, ours or another producer's, or a folder: a plan set, or a dump that holds one plan."""


class Output(click.Path):
    """A file that is written, or with `folder` a folder.

    With `standard`, `-` is the standard output, and printed lines go to the standard error. Otherwise `-` is refused: a
    file of this name is `./-`. spec: C5.4
    """

    def __init__(self, *, standard: bool = False, folder: bool = False) -> None:
        super().__init__(dir_okay=folder)
        self.standard = standard

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path. Raises BadParameter for a folder, and for `-` if that is not the standard output."""
        if value != STANDARD:
            return super().convert(value, param, ctx)
        if not self.standard:
            self.fail(
                "a file cannot be written to the standard output here; name one (./- for a file called -)", param, ctx
            )
        if ctx is not None and not ctx.resilient_parsing and not is_taken():
            ctx.with_resource(take_standard_output())
        return value


class MemorySize(click.ParamType[int]):
    """A number of bytes, such as 24GiB."""

    name = "bytes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number. Raises BadParameter for anything else."""
        found = value if isinstance(value, int) else parse_size(value)
        return found or self.fail(f"expected a positive number of bytes such as 24GiB, got {value!r}", param, ctx)


class Folder(click.Path):
    """A folder to write into. Its name is not empty, and it can be created if it does not exist.

    This is checked before the work begins, by an unnamed temporary file: nothing is created here.
    """

    def __init__(self, path_type: type | None = None) -> None:
        super().__init__(file_okay=False, path_type=path_type)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path as click does. Raises BadParameter if it is empty or cannot be written."""
        if not os.fspath(value):
            self.fail("the name of the folder is empty", param, ctx)
        found = super().convert(value, param, ctx)
        there = os.path.abspath(value)
        while not os.path.lexists(there):
            there = os.path.dirname(there)
        try:
            tempfile.TemporaryFile(dir=there).close()
        except OSError as error:
            self.fail(f"{os.fspath(value)} cannot be written ({error.strerror}): name another folder", param, ctx)
        return found


class OnceCommand(click.Command):
    """A command that refuses an option given twice, unless all of its values count. spec: C1.14"""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments. Raises UsageError for an option that is given twice."""
        if not ctx.resilient_parsing:
            _, _, order = self.make_parser(ctx).parse_args(args=list(args))
            for given, times in Counter(order).items():
                if isinstance(given, click.Option) and times > 1 and not _counts_each(given):
                    raise click.UsageError(f"{given.opts[-1]} is given {times} times; give it once", ctx)
        return super().parse_args(ctx, args)


def _counts_each(option: click.Option) -> bool:
    """Decide whether each use of an option counts, or a further use says the same."""
    return option.multiple or option.count or (option.is_flag and not option.secondary_opts)


class OnceGroup(click.Group):
    """A group of such commands."""

    command_class = OnceCommand


def gather_options(name: str, make: Callable[..., Any], *options: Decorator) -> Decorator:
    """Make a decorator that gives a command `make` of some options as its argument `name`.

    The options are named as the parameters of `make`. Those that are listed here are added to the command, and are in
    its help text in this order; others may be declared above the decorator. One of `options` may itself be the result
    of `gather_options`.
    """
    names = tuple(signature(make).parameters)

    def decorate(command: Command) -> Callable[..., Any]:
        @wraps(command)
        def call(**given: Any) -> Any:
            values = {key: given.pop(key) for key in names if key in given}
            return command(**given, **{name: make(**values)})

        for option in reversed(options):
            call = option(call)
        return call

    return decorate


def parse_pairs(flag: str) -> Callable[[object, object, tuple[str, ...]], dict[str, str]]:
    """Return a click callback that parses repeated NAME=VALUE into a dictionary; only the name may contain `=`."""

    def parse(_context: object, _parameter: object, given: tuple[str, ...]) -> dict[str, str]:
        pairs: dict[str, str] = {}
        for text in given:
            name, _, value = text.rpartition("=")  # without `=` the name is empty
            if not name or not value:
                raise click.BadParameter(f"expected NAME=VALUE, got {text!r}", param_hint=flag)
            if pairs.setdefault(name, value) != value:
                raise click.BadParameter(f"{name!r} is bound twice", param_hint=flag)
        return pairs

    return parse


def _is_size(text: str) -> bool:
    # Python refuses to read thousands of digits, including leading zeros; so the number of digits is checked first.
    return text.isascii() and text.isdigit() and len(text) <= 20 and int(text) < UINT64_END


def parse_dims(pairs: dict[str, str]) -> tuple[dict[str, int], dict[str, tuple[int, int]], dict[str, SteppedDim]]:
    """Parse the values of --dim: sizes, ranges with both ends included (`seq=1..4096`), and ranges with a step.

    A range of one number is that size. A range with a step is that of its unit: the dimension is a multiple of the
    unit.

    >>> parse_dims({"batch": "1", "seq": "1..4096", "heads": "8..8", "h": "320..640:32"})
    ({'batch': 1, 'heads': 8}, {'seq': (1, 4096), 'h/32': (10, 20)}, {'h': SteppedDim(unit='h/32', first=0, step=32)})
    """
    from tmmu.core.bindings import step_range  # which loads NumPy

    known: dict[str, int] = {}
    ranges: dict[str, tuple[int, int]] = {}
    steps: dict[str, SteppedDim] = {}
    for name, value in pairs.items():
        low, dots, rest = value.partition("..")
        high, colon, by = rest.partition(":")
        if not dots:
            known |= parse_sizes("--dim", {name: value})
            continue
        if not _is_size(low) or not _is_size(high) or int(low) > int(high) or (colon and not _is_size(by)):
            what = f"{name}={value}: expected a range such as {name}=1..4096, or with a step {name}=320..640:32"
            raise click.BadParameter(what, param_hint="--dim")
        if int(low) == int(high):
            known[name] = int(low)
            continue
        try:
            of, ends = step_range(name, int(low), int(high), int(by or 1))
        except ValueError as error:
            raise click.BadParameter(f"{name}={value}: {error}", param_hint="--dim") from None
        if of is not None and of.unit in pairs:
            raise click.BadParameter(f"{of.unit!r} is the unit of {name!r}: bind one of the two", param_hint="--dim")
        steps |= {} if of is None else {name: of}
        ranges[name if of is None else of.unit] = ends
    return known, ranges, steps


def parse_sizes(flag: str, pairs: dict[str, str]) -> dict[str, int]:
    """Parse the values of --dim as sizes."""
    for name, value in pairs.items():
        if not _is_size(value):
            raise click.BadParameter(f"{name}={value}: expected a size, got {value!r}", param_hint=flag)
    return {name: int(value) for name, value in pairs.items()}


FIX = (
    "The offset at which a tensor must begin in the arena for its role, in hexadecimal with 0x; or with the arena, as "
    "in y=activations:0x400."
)
"""The help text of --fix."""


def parse_offsets(pairs: dict[str, str]) -> dict[str, FixedByte]:
    """Parse the values of --fix as offsets, each with the arena that is named before it, if any.

    >>> parse_offsets({"x": "256", "y": "activations:0x100"})
    {'x': 256, 'y': ('activations', 256)}
    """
    found: dict[str, FixedByte] = {}
    for name, value in pairs.items():
        arena, colon, text = value.rpartition(":")
        digits = text[2:] if text.startswith("0x") else text
        try:
            if not digits.isalnum() or not digits.isascii() or len(digits) > 20:
                raise ValueError
            byte = int(digits, 16 if text.startswith("0x") else 10)
        except ValueError:
            byte = UINT64_END
        if byte >= UINT64_END or (colon and not arena):
            what = f"{name}={value}: expected a byte of an arena as 0x400 or ARENA:0x400, got {value!r}"
            raise click.BadParameter(what, param_hint="--fix")
        found[name] = (arena, byte) if colon else byte
    return found


def parse_successive(pairs: dict[str, str]) -> dict[str, tuple[int, ...]]:
    """Parse the values of --dim as sizes of successive batches (`seq=4,8,16`).

    >>> parse_successive({"batch": "1", "seq": "4,8,16"})
    {'batch': (1,), 'seq': (4, 8, 16)}
    """
    return {
        name: tuple(parse_sizes("--dim", {name: text})[name] for text in value.split(","))
        for name, value in pairs.items()
    }


def parse_shapes(given: dict[str, str], in_bytes: dict[str, str]) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
    """Parse the values of --shape and --bytes: plain shapes (1x3x640x640, `scalar`), and sizes declared with a type.

    >>> parse_shapes({"x": "1x3", "y": "f32:1x10"}, {"z": "40"})
    ({'x': (1, 3)}, {'y': 'float32:1x10', 'z': 'bytes:40'})
    """
    from tmmu.core.bindings import parse_size  # which loads NumPy

    plain, stated = {}, {}
    for name, value in given.items():
        try:
            shape, dtype = parse_size(value)
        except ValueError:
            what = (
                f"{name}={value}: expected sizes with x between them, such as {name}=1x3x640x640 or {name}=float32:1x10"
            )
            raise click.BadParameter(what, param_hint="--shape") from None
        if dtype is None:
            plain[name] = shape
        else:
            stated[name] = value if value.startswith("bytes:") else f"{dtype}:{value.rpartition(':')[2].lower()}"
    for name, size in parse_sizes("--bytes", in_bytes).items():
        if name in given:
            raise click.BadParameter(f"{name!r} already has a --shape", param_hint="--bytes")
        stated[name] = f"bytes:{size}"
    return plain, stated


def bindings_of(
    dim: dict[str, str],
    shape: dict[str, str],
    bytes: dict[str, str],
    value: dict[str, str],
    donate: tuple[str, ...] = (),
    trust_shapes: bool = False,
    keep_inputs: bool = False,
    runtime: RuntimeGraph | None = None,
) -> Bindings:
    """Return what --dim, --shape, --bytes, --value, --donate, --trust-shapes, --keep-inputs and --as bind, as named.

    >>> bindings_of({"n": "4"}, {}, {"y": "40"}, {}).stated
    {'y': 'bytes:40'}
    """
    known, ranges, steps = parse_dims(dim)
    given, stated = parse_shapes(shape, bytes)
    return Bindings(
        dims=known, shapes=given, values=value, donated=donate, trust_shapes=trust_shapes, ranges=ranges,
        stated=stated, steps=steps, keep_inputs=keep_inputs, runtime=runtime,
    )  # fmt: skip


def runtime_of(as_runtime: str | None, ort_level: str | None) -> RuntimeGraph | None:
    """Return the graph that --as and --ort-level ask for, its level empty if none is given. spec: C1.19

    Raises UsageError for a level without a runtime, and MISSING_PACKAGE before any work.
    """
    from tmmu.core.extras import require_package

    if as_runtime is None:
        if ort_level is not None:
            raise click.UsageError("--ort-level goes with --as onnxruntime")
        return None
    require_package("onnxruntime", f"--as {as_runtime}", "judges")
    return RuntimeGraph(as_runtime, ort_level or "")


def workspace_option(load: Callable[[str], Any]) -> Decorator:
    """Return the option --workspace, whose file `load` reads."""
    return click.option(
        "--workspace",
        type=existing,
        callback=lambda _context, _parameter, path: None if path is None else load(path),
        metavar="FILE",
        help="What kernels need beside operands and results, by operator or node (TOML).",
    )


RUNTIME_FLAGS = gather_options(
    "runtime",
    runtime_of,
    click.option(
        "--as", "as_runtime", type=click.Choice(list(RUNTIMES)),
        help="Take the graph that this runtime makes of the model, fused and laid out for this CPU.",
    ),
    click.option(
        "--ort-level", type=click.Choice(RUNTIMES["onnxruntime"]),
        help="With --as onnxruntime, which of its optimizations are made [all, or the plan's].",
    ),
)  # fmt: skip


def binding_option(flag: str, text: str) -> Callable[[Any], Any]:
    """Return a repeatable option that takes NAME=VALUE."""
    return click.option(flag, callback=parse_pairs(flag), multiple=True, metavar="NAME=VALUE", help=text)
