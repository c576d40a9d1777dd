"""verify-plan: prove memory plans, or show why they are wrong.

One verdict a file; the exit code says the worst of them. Text, JSON, JUnit and SARIF say the same thing.
spec: C1.1, C1.2, C1.3, C1.4, C1.5, C1.6, C1.12, C1.13, C1.15 to C1.18, C4.3, V4.10, V5.5, V5.7
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from proofs.proving.kernel import installed
from proofs.proving.solvers.kept import start_ahead
from proofs.proving.solvers.option import solver_option, timeout_option
from proofs.readers.donation import patterns_of_program
from proofs.verify import constructs, folders, text
from proofs.verify import judge as verify_plan
from proofs.verify.options import REQUIRABLE, Disagreement, Options, ProofFolders, SharedNames, Solving
from proofs.verify.sources import RecordedSubject
from proofs.verify.verdict import Verdict
from proofs.verify.version import version_option
from tmmu.core import canonical, flags, kind
from tmmu.core.errors import TmmuError
from tmmu.core.flags import (
    MODEL_SUFFIXES,
    PLAN_SUFFIXES,
    RUNTIME_FLAGS,
    Files,
    Folder,
    Listing,
    MemorySize,
    OnceCommand,
    Output,
    SkippedFile,
    binding_option,
    bindings_of,
    existing,
    gather_options,
    model_file,
    parse_offsets,
    stem_of_plan,
    workspace_option,
)
from tmmu.core.output import STANDARD, count_noun, escape_line, print_lines, print_text
from tmmu.core.process import WORST_FIRST
from tmmu.core.progress import progress
from tmmu.core.vocabulary import MODES, FixedByte
from tmmu.plans import configuration_file, failed_models, workspace_file
from tmmu.plans.configuration_file import Configuration
from tmmu.plans.gate import StatedBuffers, StatedPlan
from tmmu.plans.sections import BufferPlan, Membership, Plan

if TYPE_CHECKING:  # modules for several plans and for other formats than text are loaded at first use
    from proofs.verify.ranks import Member
    from proofs.verify.sets import JudgedPlan
    from tmmu.plans.sets import PlanSet


def _configuration(_context: object, _parameter: object, path: str | None) -> Configuration | None:
    """Read the file of --arenas. Raises BadParameter if it is not a configuration."""
    try:
        return None if path is None else configuration_file.load(path)
    except TmmuError as error:
        raise click.BadParameter(str(error)) from error


def _required(_context: object, _parameter: object, given: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of --require. Raises BadParameter for one that is not known."""
    required = tuple(dict.fromkeys(part.strip() for part in ",".join(given).split(",") if part.strip()))
    for name in required:
        if name not in REQUIRABLE:
            raise click.BadParameter(f"{name!r} is not one of {', '.join(REQUIRABLE)}", param_hint="--require")
    return required


def _fixed(fix: dict[str, str]) -> dict[str, FixedByte]:
    """Return the bytes of --fix."""
    return parse_offsets(fix)


@dataclass(frozen=True)
class FleetOptions:
    """The processes that judge plans, and the folder that keeps the verdicts."""

    jobs: int | None
    cluster: str | None
    resume: str | None

    @property
    def is_asked(self) -> bool:
        """Whether plans are judged by other processes, or verdicts kept."""
        return any(given is not None for given in (self.jobs, self.cluster, self.resume))


@dataclass(frozen=True)
class GivenPlans:
    """The plans of a command line, the model of each if they are paired, and the files that are skipped in folders.

    `errors` are the verdicts on models that could not be planned, and on plans and models without a partner.
    """

    plans: tuple[str, ...]
    is_set: bool
    """Whether a folder is given, or several files."""
    models: Mapping[str, str] = field(default_factory=dict)
    errors: tuple[Verdict, ...] = ()
    skipped: tuple[SkippedFile, ...] = ()
    sets: Mapping[str, PlanSet] = field(default_factory=dict)
    """The manifests of plan sets, by folder."""
    refused: frozenset[str] = frozenset()
    """The folders whose manifest cannot be read: their plans are judged as programs, and the error is about the set."""

    def of_plan(self, plan: str, options: Options) -> Options:
        """Return the options for one plan: with its model, if plans are paired, and as a program of its set."""
        in_set = options.in_set or any(plan in self.programs(folder) for folder in self.sets)
        in_set = in_set or (os.path.dirname(plan) or os.curdir) in self.refused
        return replace(options, model=self.models[plan] if self.models else options.model, in_set=in_set)

    def programs(self, folder: str) -> list[str]:
        """Return the files of a set's plans."""
        return _files_of_set(folder, self.sets[folder])


def _files_of_set(folder: str, manifest: PlanSet) -> list[str]:
    from tmmu.plans.sets import plan_path

    return [plan_path(folder, name) for name in manifest.agreement.programs]


def _given_plans(given: tuple[Listing, ...], models: tuple[Listing, ...], model: str | None) -> GivenPlans:
    """Return the plans that are given, each with its model. Raises UsageError for a file that cannot be read."""
    files = [path for listing in given for path in listing.files]
    records = {path: folders.verdict_of_record(path) for path in files if failed_models.is_record(path)}
    manifests, errors = folders.read_manifests([path for path in files if folders.is_manifest(path)])
    given_alone = [path for listing in given if not listing.is_folder for path in listing.files]
    plans = tuple(path for path in files if path not in records and not folders.is_manifest(path))
    for folder, manifest in manifests.items():  # a manifest that is given by itself means its plans
        if os.path.join(folder, kind.MANIFEST) in map(os.path.normpath, given_alone) or folder == os.curdir:
            listed = _files_of_set(folder, manifest)
            plans += tuple(path for path in listed if path not in plans and os.path.isfile(path))
    refused = frozenset(os.path.dirname(error.file) or os.curdir for error in errors)
    errors += records.values()
    paired: Mapping[str, str] = {}
    paths = [path for listing in models for path in listing.files]
    if models:
        from proofs.verify import pairing

        try:
            paired, unpaired = pairing.pair(plans, paths)
        except OSError as error:
            raise click.UsageError(escape_line(f"{error.filename}: {error.strerror}")) from error
        errors += unpaired
        plans = tuple(path for path in plans if path in paired)
    paths += [] if model is None else [model]
    skipped = folders.without_read([each for listing in given for each in listing.skipped], plans, paths)
    is_set = len(files) > 1 or any(listing.is_folder for listing in given)
    return GivenPlans(plans, is_set or bool(manifests), paired, tuple(errors), tuple(skipped), manifests, refused)


@dataclass(frozen=True)
class Printing:
    """How verdicts are printed. UsageError for options that exclude each other."""

    style: str
    quiet: bool
    verbose: bool

    def __post_init__(self) -> None:
        if self.quiet and (self.verbose or self.style != "text"):
            raise click.UsageError("-q goes with neither -v nor --format")

    def print_verdict(self, verdict: Verdict, *, verbose: bool = False) -> None:
        """Print a verdict, if it is printed as text."""
        if self.style == "text":
            lines = islice(text.lines(verdict, verbose), 1 if self.quiet else None)
            print_lines(*lines, err=verdict.verdict == "ERROR")

    def print_end(self, verdicts: list[Verdict], given: GivenPlans) -> int:
        """Print what is about all files, or what is for programs, and return the exit code of all verdicts."""
        if self.style != "text":
            from proofs.verify import formats

            print_text(formats.WRITERS[self.style](verdicts, given.skipped))
        elif given.is_set and not self.quiet:
            print_lines(*constructs.lines(constructs.count(verdicts), verbose=self.verbose))
        codes = {verdict.exit for verdict in verdicts}
        return next(code for code in WORST_FIRST if code in codes)


@click.command(
    cls=OnceCommand,
    context_settings=flags.SETTINGS,
    epilog=flags.format_examples(
        "verify-plan unet.plan.cbor --model unet.onnx",
        "verify-plan plans --require slot-count --format junit",
        "verify-plan plans --models models",
        "verify-plan plans --jobs 2 --resume verdicts",
        "tmmu plan mlp.onnx -o - | verify-plan - --model mlp.onnx --solver both -q",
    ),
)
@click.argument(
    "given",
    nargs=-1,
    required=True,
    type=Files(PLAN_SUFFIXES, folders.is_taken, "plan of another compiler"),
    metavar="PLAN|FOLDER...",
)
@click.option("--model", type=model_file, help="The model of the plan (ONNX, or IR as .ir.cbor or .ir.txt).")
@click.option(
    "--models",
    multiple=True,
    type=Files(MODEL_SUFFIXES),
    metavar="MODEL|FOLDER",
    help="Verify each plan against its model among these, by digest, else by name; no plan or model may be left over. "
    "May be repeated.",
)
@binding_option("--dim", "A binding that the plan must have been made with.")
@binding_option(
    "--shape", "The same for a whole input shape; of another tensor a shape to assume: y=1x10, y=float32:1x10."
)
@binding_option("--bytes", "How many bytes to assume for a tensor whose shape is not stated.")
@binding_option("--value", "The same for an input's value.")
@click.option(
    "--donate",
    multiple=True,
    metavar="NAME",
    help="The caller gives this input up: results may take its bytes; * is any text. Of a set, PROGRAM:NAME is the "
    "input of one program, and NAME that of each.",
)
@click.option(
    "--arenas",
    type=existing,
    callback=_configuration,
    help="The arena configuration (TOML, as for tmmu plan) that each plan must have; else the plan's is assumed.",
)
@workspace_option(workspace_file.load)
@binding_option("--fix", flags.FIX)
@click.option(
    "--mode",
    type=click.Choice(MODES),
    help="The part of the model that the plan runs, where the plan does not state it [inference].",
)
@click.option("--trust-shapes", is_flag=True, help="Accept the shapes that the model file states without check.")
@click.option(
    "--require",
    multiple=True,
    callback=_required,
    metavar="LIST",
    help=f"Answer UNKNOWN if one of these is missing: {', '.join(REQUIRABLE)}. May be repeated.",
)
@click.option(
    "--format",
    "style",
    type=click.Choice(["text", "json", "junit", "sarif"]),
    default="text",
    show_default=True,
)
@timeout_option(600)
@click.option(
    "--definition-limit",
    type=click.IntRange(min=0),
    default=500,
    show_default=True,
    help="Plans of up to so many storages are also proved from the definition, without the lemmas.",
)
@solver_option("The solver that proves the obligations; with both, each must.")
@click.option(
    "--smt2",
    type=Folder(),
    metavar="DIR",
    help="Write the obligations of proved plans, and the lemmas, as SMT-LIB 2 into DIR.",
)
@click.option(
    "--report",
    type=Output(),
    metavar="FILE",
    help="Write the verdicts as a page; of a refuted plan with the rectangles, the step and the bytes.",
)
@click.option("--workers", type=click.IntRange(1, 64), default=2, show_default=True, help="Solver processes.")
@click.option(
    "--jobs",
    type=click.IntRange(1, 1024),
    metavar="N",
    help="Judge plans in N processes; what is the same in several is proved once.",
)
@click.option(
    "--cluster",
    metavar="ADDRESS",
    help="The same on the workers of a Dask cluster, which see the files under the same names.",
)
@click.option(
    "--resume",
    type=Folder(),
    metavar="DIR",
    help="Keep each verdict in DIR, and take those that are there of the same bytes, options and versions.",
)
@click.option(
    "--shared", multiple=True, metavar="NAME",
    help="The plans are programs that run in turn in one memory, in which the tensors of this name are one; * is any "
    "text. PROGRAM:NAME=PROGRAM:NAME pairs tensors of different names. Methods of an ExecuTorch program and entries of "
    "a TensorFlow Lite model are programs. May be repeated.",
)  # fmt: skip
@click.option(
    "--initial", multiple=True, metavar="NAME",
    help="With --shared: the caller writes this shared tensor before the first call, as it does all parameters.",
)  # fmt: skip
@click.option("--capacity", type=MemorySize(), metavar="BYTES", help="The memory, of formats that state none.")
@click.option("--coq", type=Folder(), metavar="DIR", help="Write DIR/Plan.v, a proof of the plan that Coq checks.")
@click.option(
    "--optimum",
    type=Folder(),
    metavar="DIR",
    help="Prove that no placement is lower: VeriPB checks the proof in DIR, or one that is found and written there.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print the first line of each verdict alone.")
@click.option(
    "-v", "--verbose", is_flag=True, help="List each obligation with its rows and the solver that proved them."
)
@version_option
@gather_options("bindings", bindings_of, RUNTIME_FLAGS)
@gather_options("fixed", _fixed)
@gather_options("solving", Solving)
@gather_options("folders", ProofFolders)
@gather_options("options", Options)
@gather_options("fleet", FleetOptions)
@gather_options("names", SharedNames)
@gather_options("printing", Printing)
def command(
    given: tuple[Listing, ...],
    models: tuple[Listing, ...],
    options: Options,
    fleet: FleetOptions,
    names: SharedNames,
    printing: Printing,
    report: str | None,
) -> int:
    """Prove that running each PLAN in its arenas computes what private memory would; or print the witness.

    A PLAN is ours, binary or text, or one of another compiler (spec/foreign.md), - standard input. A FOLDER means
    the plans in it, at any depth; its other files are counted on the standard error. A failed.txt of tmmu plan
    in it is an error. A folder with a set.cbor is a plan set: its programs are also proved together.

    \b
    Exit codes: 0 PROVED, 1 REFUTED, 3 UNKNOWN, 4 no plan or no model, 2 command line, 70 internal error.
    """
    if models and options.model is not None:
        raise click.UsageError("--model and --models exclude each other")
    if models and any(STANDARD in listing.files for listing in given):
        raise click.UsageError("--models goes with files; of the standard input give the --model")
    if names.initial and not names.shared:
        raise click.UsageError("--initial goes with --shared; the manifest of a set states what is initial")
    plans_given = _given_plans(given, models, options.model)
    plans, into = plans_given.plans, options.folders
    if into.coq is not None and len(plans) > 1:
        raise click.BadParameter("give one plan: its file is DIR/Plan.v", param_hint="--coq")
    if into.coq is not None and installed.find_theory() is None:
        what = "the kernel of this version is not installed: run tmmu kernel install"
        raise click.BadParameter(what, param_hint="--coq")
    for flag, folder in (("--smt2", into.smt2), ("--optimum", into.optimum)):
        if folder is not None:
            _apart(flag, folder, plans)
    read = (*plans, *filter(None, (options.model,)), *plans_given.models.values())
    if report is not None and os.path.realpath(report) in map(os.path.realpath, read):
        raise click.BadParameter(escape_line(f"{report} is read too; choose another file"), param_hint="--report")
    print_lines(*folders.lines(plans_given.skipped, verbose=printing.verbose), err=True)
    if not fleet.is_asked:
        return _in_turn(plans_given, replace(options, in_set=bool(names.shared)), names, printing, report)
    if names.shared or plans_given.sets:
        named = "--shared" if names.shared else next(iter(plans_given.sets))
        raise click.UsageError(f"{named}: a plan set goes with none of --jobs, --cluster and --resume: verify it alone")
    for flag, folder in (*_written_into(into), ("--report", report)):
        if folder is not None:
            raise click.UsageError(f"{flag} goes with none of --jobs, --cluster and --resume")
    return _by_processes(plans_given, options, fleet, printing)


def _written_into(into: ProofFolders) -> tuple[tuple[str, str | None], ...]:
    """Return the flag of each folder, and the folder."""
    return ("--smt2", into.smt2), ("--coq", into.coq), ("--optimum", into.optimum)


def _in_turn(
    given: GivenPlans, options: Options, names: SharedNames, printing: Printing, report: str | None
) -> int:  # fmt: skip
    """Judge one plan after the other, print each verdict at once, and write the report."""
    start_ahead(options.solving.solvers[0])
    verdicts: list[Verdict] = []
    drawn: list[tuple[Verdict, list[str], Plan | BufferPlan | None]] = []
    members: list[Member] = []
    of_sets: list[JudgedPlan] = []
    for number, path in enumerate(given.plans):
        asked, judged, plan = given.of_plan(path, options), list[tuple[Verdict, Plan | BufferPlan | None]](), None
        try:
            with progress(path if len(given.plans) == 1 else f"{path} ({number + 1} of {len(given.plans)})") as doing:
                doing("reading")
                for name, stated in _open_file(path, asked, names).items():
                    plan, sources = stated.plan, RecordedSubject()
                    program = _program_of(name, path, stated)
                    its = _of_program(asked, program) if asked.in_set else asked
                    verdict = verify_plan.judge(name, stated, its, doing, sources)
                    judged.append((verdict, plan))
                    members += _as_member(verdict, stated)
                    if asked.in_set or _membership_of(stated) is not None:
                        from proofs.verify.sets import JudgedPlan

                        of_sets.append(JudgedPlan(name, stated, verdict, sources.subject, program))
        except TmmuError as error:
            flag = " or ".join(name for name, folder in _written_into(options.folders) if folder is not None)
            if flag and error.code_id == "TMMU_ALLOCATION_FAILURE":  # it reads nothing, it could not write
                raise click.BadParameter(str(error), param_hint=flag) from error
            judged.append((Verdict.of_error(path, error), plan))
        except Disagreement as error:
            raise click.UsageError(escape_line(f"{path}: {error}")) from error
        except OSError as error:
            raise click.UsageError(escape_line(f"{error.filename or path}: {error.strerror}")) from error
        for verdict, plan in judged:
            verdicts.append(verdict)
            if report is not None:
                drawn.append((verdict, list(text.lines(verdict)), plan))
            printing.print_verdict(verdict, verbose=printing.verbose)
    _add_errors(verdicts, given, printing)
    drawn += [(verdict, list(text.lines(verdict)), None) for verdict in given.errors]
    _together(verdicts, members, options, printing)
    _as_sets(verdicts, of_sets, given, names, options, printing)
    if report is not None:
        from proofs.verify import picture

        try:
            canonical.write_atomically(report, picture.page(drawn).encode())
        except OSError as error:
            raise click.BadParameter(escape_line(f"{report}: {error.strerror}"), param_hint="--report") from error
    return printing.print_end(verdicts, given)


def _open_file(path: str, asked: Options, names: SharedNames) -> Mapping[str, StatedPlan | StatedBuffers]:
    """Read a file once: all ranks are judged by the bytes that each was. Of a set, each program in it is a plan."""
    return verify_plan.open_programs(path, asked) if names.shared else {path: verify_plan.open_plan(path, asked)}


def _membership_of(stated: StatedPlan | StatedBuffers) -> Membership | None:
    return stated.plan.membership if isinstance(stated, StatedPlan) else None


def _program_of(name: str, path: str, stated: StatedPlan | StatedBuffers) -> str:
    """Return the name of a program in a file of several, or as its plan states it, else that of its file."""
    inner = name.removeprefix(path).removeprefix(":")
    membership = _membership_of(stated)
    return inner or (stem_of_plan(path) if membership is None else membership.program)


def _of_program(asked: Options, program: str) -> Options:
    """Return the options for a program of a set."""
    donated = patterns_of_program(asked.bindings.donated, program)
    return replace(asked, bindings=replace(asked.bindings, donated=donated))


def _add_errors(verdicts: list[Verdict], given: GivenPlans, printing: Printing) -> None:
    """Add the errors about models and plans without a partner, and print them."""
    for verdict in given.errors:
        verdicts.append(verdict)
        printing.print_verdict(verdict)


def _as_member(verdict: Verdict, stated: StatedPlan | StatedBuffers) -> list[Member]:
    """Return the facts on a plan that other ranks need, if it is of a rank."""
    if not isinstance(stated, StatedPlan) or stated.plan.provenance is None or not stated.plan.provenance.shard_spec:
        return []
    from proofs.verify import ranks

    one = ranks.member(verdict, stated)
    return [] if one is None else [one]


def _together(verdicts: list[Verdict], members: list[Member], options: Options, printing: Printing) -> None:
    """Add the verdicts on all ranks together, and print them."""
    if not members:
        return
    from proofs.verify import ranks

    if not any(verdict.verdict == "ERROR" for verdict in verdicts):
        for name in ranks.misspelt(members, options.bindings.donated):
            raise click.UsageError(
                escape_line(f"--donate {name}: no plan given has a graph input or parameter of this name")
            )
    for verdict in ranks.verdicts(members, options):
        verdicts.append(verdict)
        printing.print_verdict(verdict)


def _as_sets(
    verdicts: list[Verdict], plans: list[JudgedPlan], given: GivenPlans, names: SharedNames, options: Options,
    printing: Printing,
) -> None:  # fmt: skip
    """Add the verdicts on plan sets, and print them. Raises UsageError for names that fit nothing."""
    if not plans and not given.sets:
        return
    from proofs.verify import sets as together

    if names.shared and any(verdict.verdict == "ERROR" for verdict in verdicts):
        return  # a program is missing, and its error has been printed
    if names.shared or given.sets:
        for name in together.misspelt(plans, options.bindings.donated):
            raise click.UsageError(
                escape_line(f"--donate {name}: no program has a graph input or parameter of this name")
            )
    try:
        for verdict in together.verdicts(plans, given.sets, names, options):
            verdicts.append(verdict)
            printing.print_verdict(verdict, verbose=printing.verbose)
    except Disagreement as error:
        raise click.UsageError(escape_line(str(error))) from error


def _by_processes(given: GivenPlans, options: Options, asked: FleetOptions, printing: Printing) -> int:
    """Judge plans by many processes, print each in the given order, and count. spec: V7.1, V7.11"""
    from proofs.verify.fleet.pools import Cluster, Pool, Processes
    from proofs.verify.fleet.results import Results
    from proofs.verify.fleet.schedule import Done, Fleet

    plans = given.plans
    if STANDARD in plans:
        raise click.UsageError("the standard input goes with none of --jobs, --cluster and --resume")
    if asked.jobs is not None and asked.cluster is not None:
        raise click.UsageError("--jobs and --cluster exclude each other: a cluster has as many workers as it has")
    pool: Pool = Processes(asked.jobs or 1) if asked.cluster is None else Cluster(asked.cluster)
    came: dict[int, Done] = {}
    verdicts: list[Verdict] = []
    resume = asked.resume
    results = None if resume is None else Results(resume)
    if results is not None and results.distrust:
        print_lines(f"note: {results.distrust}", err=True)
    fleet = Fleet(plans, options, pool, results, models=given.models)
    try:
        with progress(count_noun(len(plans), "plan")) as doing:
            fleet.doing = doing
            for done in fleet.judge_files():
                came[done.number] = done
                while len(verdicts) in came:
                    verdicts.append(came[len(verdicts)].verdict)
                    printing.print_verdict(verdicts[-1], verbose=printing.verbose)
    except KeyboardInterrupt:
        kept = "kept nowhere: --resume DIR keeps them" if resume is None else f"kept in {resume}: --resume goes on"
        print_lines(f"{fleet.done} of {count_noun(len(plans), 'verdict')} are {kept}", err=True)
        raise
    except Disagreement as error:
        raise click.UsageError(escape_line(str(error))) from error
    except OSError as error:
        raise click.UsageError(escape_line(f"{error.filename}: {error.strerror}")) from error
    finally:
        pool.close()
    single = tuple(verdicts)
    _add_errors(verdicts, given, printing)
    members = [done.member for _, done in sorted(came.items()) if done.member is not None]
    with progress("all ranks") as doing:
        doing("comparing")
        _together(verdicts, members, options, printing)
    if printing.style == "text":
        print_lines(*fleet.count_verdicts(single))
    return printing.print_end(verdicts, given)


def _apart(flag: str, folder: str, plans: tuple[str, ...]) -> None:
    """Two plans that would be written to one folder are an error of the command line."""
    from proofs.verify import export as smtlib

    of: dict[Path, str] = {}
    for path in plans:
        other = of.setdefault(smtlib.folder_of(folder, path), path)
        if other != path:
            text = f"{other} and {path} would be written to one folder; give one at a time, each its own DIR"
            raise click.BadParameter(escape_line(text), param_hint=flag)
