"""Read `tla/manifest.json`: every model, seeded fault and non-property, each with the end that its run must have.

A *model* is a module under one configuration. It succeeds with pinned numbers of states, or is one that must fail. A
*twin* is a model with a seeded fault: one place of one of its files is replaced, and TLC must refute the check that it
names. A *non-property* is a statement that the correct model must violate, since otherwise the model could do too
little. A twin may also *keep* a non-property: its fairness is stronger than the module's, and it shows that the
non-property would notice that. Twins and non-properties are run with only the check that they name, so that a violation
can only be of that one. A module with strong fairness has a twin with weak fairness in its place, which must be
refuted.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proofs.model_check import config
from proofs.model_check.config import Config, WrongConfig
from tmmu.core.pages import data_folder
from tmmu.core.reading import parse_json, read_file

SUCCESS = "success"
SIZES = ("ci", "full")
"""The bounds of a model: those that CI always runs, and larger ones. CI runs one larger model each day. spec: V6.17"""
KINDS: dict[str, type] = {
    "modules": list, "models": list, "twins": list, "nonproperties": list, "distinct_states": int, "depth": int,
    "temporal": bool,
}  # fmt: skip
"""The types of the values of these keys. All others are strings."""
NAMES = ("module", "folder", "name", "root", "config", "file", "violates", "expected", "model", "keeps")
NAME = re.compile(r"\w[\w.-]*")
"""Names become names of files, so that none may lead out of its folder."""
LIMIT = 1 << 26
"""The largest manifest, configuration or module that is read, in bytes."""


class WrongManifest(Exception):
    """The manifest is not of its form, or does not fit the files beside it. The message names the place."""


@dataclass(frozen=True)
class Edit:
    """One place of one file, and its replacement in a seeded fault."""

    file: str
    replace: str
    by: str

    def apply(self, text: str) -> str:
        """Return the text with the seeded fault. Raises `WrongManifest` unless the place occurs exactly once."""
        if text.count(self.replace) != 1:
            raise WrongManifest(f"{self.replace!r} occurs {text.count(self.replace)} times in {self.file}, not once")
        if self.replace == self.by:
            raise WrongManifest(f"{self.replace!r} is replaced by itself")
        return text.replace(self.replace, self.by)


@dataclass(frozen=True)
class Run:
    """One run of TLC: the files, the question, and how it must end.

    `files` are added to the folder's, as (name, text).
    """

    name: str
    module: str
    kind: str
    folder: Path
    root: str
    config: Config
    expected: str
    distinct_states: int | None = None
    depth: int | None = None
    size: str = "ci"
    edit: Edit | None = None
    files: tuple[tuple[str, str], ...] = ()

    @property
    def checks(self) -> tuple[str, ...]:
        """The names of its checks."""
        return self.config.checks


@dataclass(frozen=True)
class Module:
    """A system: its TLA+ module, the module's statement in a sentence, and the runs that check it."""

    name: str
    folder: Path
    statement: str
    runs: tuple[Run, ...]

    @property
    def checks(self) -> tuple[str, ...]:
        """The checks of its models, in the order of their configurations, each once."""
        return tuple(dict.fromkeys(c for run in self.runs if run.kind == "model" for c in run.checks))

    @property
    def unviolated(self) -> tuple[str, ...]:
        """The checks that no seeded fault violates, which may be vacuous."""
        violated = {run.expected for run in self.runs if run.kind == "twin"}
        return tuple(check for check in self.checks if check not in violated)


def installed_folder() -> Path:
    """Return the folder with the models that came with this package."""
    return data_folder("tla")


def read_manifest(folder: Path) -> tuple[Module, ...]:
    """Read the manifest of a folder and the configurations that it names. Raises `WrongManifest`."""
    path = folder / "manifest.json"
    try:
        document = parse_json(read_file(path, LIMIT))
    except (OSError, ValueError) as error:
        raise WrongManifest(f"{path}: {error}") from error
    modules = tuple(_module(folder, entry) for entry in _list(_keys(document, "the manifest", {"modules"}), "modules"))
    names = [run.name for module in modules for run in module.runs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise WrongManifest(f"{', '.join(twice)}: a name is used twice")
    return modules


def _module(folder: Path, entry: Any) -> Module:
    _keys(entry, "a module", {"module", "folder", "statement", "models", "twins"}, {"nonproperties"})
    name, place = entry["module"], folder / entry["folder"]
    models = {run.name: run for run in (_model(name, place, model) for model in _list(entry, "models"))}
    runs = [*models.values()]
    for kind, make in (("twin", _twin), ("nonproperty", _nonproperty)):
        for row in _list(entry, {"twin": "twins", "nonproperty": "nonproperties"}[kind]):
            of = row.get("model", next(iter(models), None)) if isinstance(row, dict) else None
            if of not in models:
                raise WrongManifest(f"{name}: unknown model {of!r} for {row!r}")
            runs.append(make(models[of], row, entry))
    _check_fairness(name, place, runs)
    return Module(name, place, entry["statement"], tuple(runs))


def _model(module: str, folder: Path, row: Any) -> Run:
    _keys(row, f"a model of {module}", {"name", "root"}, {"config", "expected", "distinct_states", "depth", "size"})
    file = folder / row.get("config", f"{row['name']}.cfg")
    try:
        question = config.read_config(read_file(file, LIMIT).decode())
    except (OSError, ValueError, WrongConfig) as error:
        raise WrongManifest(f"{file}: {error}") from error
    expected, size = row.get("expected", SUCCESS), row.get("size", "ci")
    if size not in SIZES:
        raise WrongManifest(f"{row['name']}: size {size!r} is not one of {', '.join(SIZES)}")
    if expected == SUCCESS:
        if not {"distinct_states", "depth"} <= set(row):
            raise WrongManifest(f"{row['name']}: a model that succeeds must pin its distinct_states and its depth")
    elif expected not in question.checks:
        raise WrongManifest(f"{row['name']}: {expected!r} is not checked by {file.name}")
    else:
        question = question.only(expected)
    return Run(
        row["name"], module, "model", folder, row["root"], question, expected, row.get("distinct_states"),
        row.get("depth"), size,
    )  # fmt: skip


def _check_fairness(name: str, folder: Path, runs: list[Run]) -> None:
    """Check that each strong fairness is needed: with weak fairness in its place some property fails."""
    file = folder / f"{name}.tla"
    try:
        text = read_file(file, LIMIT).decode()
    except (OSError, ValueError):
        return  # its runs fail for this reason
    needed: set[int] = set()
    for edit in (run.edit for run in runs if run.edit is not None and run.edit.file == file.name):
        if edit.replace.replace("SF_", "WF_") == edit.by and text.count(edit.replace) == 1:
            at = text.index(edit.replace)
            needed |= set(range(at, at + len(edit.replace)))
    for found in re.finditer(r"\bSF_\w+\([^()]*(?:\([^()]*\))*[^()]*\)", text):
        if found.start() not in needed:
            raise WrongManifest(f"{name}: {found[0]} is strong fairness, and no twin shows that weak does not suffice")


def _twin(model: Run, row: Any, entry: dict[str, Any]) -> Run:
    if "keeps" in row:
        return _keeping_twin(model, row, entry)
    _keys(row, f"a twin of {model.name}", {"name", "replace", "by", "violates"}, {"model", "file"})
    if row["violates"] not in model.checks:
        raise WrongManifest(f"{row['name']}: {row['violates']!r} is not checked by {model.name}")
    edit = Edit(row.get("file", f"{model.module}.tla"), row["replace"], row["by"])
    return dataclasses.replace(
        model, name=row["name"], kind="twin", config=model.config.only(row["violates"]), expected=row["violates"],
        distinct_states=None, depth=None, edit=edit,
    )  # fmt: skip


def _keeping_twin(model: Run, row: Any, entry: dict[str, Any]) -> Run:
    """Return the run of a twin that satisfies a non-property of its module."""
    _keys(row, f"a twin of {model.name}", {"name", "replace", "by", "keeps"}, {"model", "file"})
    rows = [each for each in _list(entry, "nonproperties") if each.get("violates") == row["keeps"]]
    if not rows:
        raise WrongManifest(f"{row['name']}: {row['keeps']!r} is not a non-property of {model.module}")
    return dataclasses.replace(
        model, name=row["name"], kind="twin", expected=SUCCESS, distinct_states=None, depth=None,
        config=model.config.only(row["keeps"], bool(rows[0].get("temporal"))),
        edit=Edit(row.get("file", f"{model.module}.tla"), row["replace"], row["by"]),
    )  # fmt: skip


def _nonproperty(model: Run, row: Any, entry: dict[str, Any]) -> Run:
    _keys(row, f"a non-property of {model.name}", {"name", "violates"}, {"model", "temporal"})
    return dataclasses.replace(
        model, name=row["name"], kind="nonproperty", expected=row["violates"], distinct_states=None, depth=None,
        config=model.config.only(row["violates"], bool(row.get("temporal"))),
    )  # fmt: skip


def _keys(entry: Any, what: str, needed: set[str], allowed: set[str] | None = None) -> dict[str, Any]:
    if not isinstance(entry, dict):
        raise WrongManifest(f"{what} is not an object")
    missing, unknown = needed - set(entry), set(entry) - needed - (allowed or set())
    if missing or unknown:
        wrong = f"lacks {', '.join(sorted(missing))}" if missing else f"has the unknown {', '.join(sorted(unknown))}"
        raise WrongManifest(f"{what} {wrong}")
    for key, value in entry.items():
        if not isinstance(value, KINDS.get(key, str)):
            raise WrongManifest(f"{what}: {key} is not of type {KINDS.get(key, str).__name__}")
        if key in NAMES and not NAME.fullmatch(str(value)):
            raise WrongManifest(f"{what}: {key} {value!r} is not a name of letters, digits, '_', '-' and '.'")
    return entry


def _list(entry: dict[str, Any], key: str) -> Iterator[Any]:
    yield from entry.get(key, [])
