"""`tla/manifest.json` against the files beside it: nothing is unchecked, no word is empty, the page is right."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from proofs.model_check import manifest
from proofs.model_check.following.follow import READERS
from proofs.model_check.manifest import SUCCESS, Module, Run
from tests.support.module_text import definitions, never_in_next

TLA = manifest.installed_folder()
MODULES = manifest.read_manifest(TLA)
RUNS = [run for module in MODULES for run in module.runs]


def text_of(run: Run) -> str:
    """The module of a run with all that it extends or instantiates."""
    texts, names = "", [run.root]
    for name in names:
        path = run.folder / f"{name}.tla"
        if path.is_file():
            texts += path.read_text()
            found = re.findall(r"INSTANCE (\w+)|EXTENDS ([\w, ]+)", texts)
            names += [n for pair in found for n in re.split(r", *", pair[0] or pair[1]) if n not in names]
    return texts


def test_there_are_models_of_every_system() -> None:
    assert {module.folder.name for module in MODULES} == {"tmmu", "mico", "foundry", "mnemosyne"}
    assert len(MODULES) >= 8


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_every_check_is_violated_by_a_twin(module: Module) -> None:
    assert module.checks
    assert module.unviolated == ()


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_every_module_has_types_and_fairness_that_matter(module: Module) -> None:
    assert "TypeOK" in module.checks
    fair = [run for run in module.runs if run.kind == "twin" and run.edit is not None and "_vars(" in run.edit.replace]
    fair += [run for run in module.runs if run.kind == "twin" and run.edit and run.edit.replace.endswith("Fairness")]
    has_fairness = any(re.search("[WS]F_vars", text_of(run)) for run in module.runs)
    assert bool(fair) == has_fairness


def is_about_fairness(run: Run) -> bool:
    """Whether a twin changes fairness, and not what the module does."""
    return run.edit is not None and any("_vars" in text for text in (run.edit.replace, run.edit.by))


def is_liveness(run: Run, check: str) -> bool:
    """Whether a check is that something happens in the end."""
    return re.search(r"~>|<>", definitions((run.folder / f"{run.root}.tla").read_text()).get(check, "")) is not None


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_what_must_happen_in_the_end_is_violated_by_a_fault_of_the_module_itself(module: Module) -> None:
    """Otherwise nothing shows that it is about what the module does, and not only about fairness."""
    live = {check for run in module.runs if run.kind == "model" for check in run.checks if is_liveness(run, check)}
    twins = [run for run in module.runs if run.kind == "twin" and not is_about_fairness(run)]
    assert live - {run.expected for run in twins} == set()


SURROUNDED = {
    "PlanLifecycle", "Quota", "PoolGenerations", "CacheGrowth", "Sessions", "MappedRegions", "Eviction", "WriteLocks",
    "DeltaEncoding", "SealedRecords", "SealedLog", "KeyRotation", "PlanSet",
}  # fmt: skip
"""Modules with steps of others, that need not come. The others are programs that run to their end."""


def test_too_strong_a_fairness_is_noticed_where_others_take_steps() -> None:
    """A twin with fairness for what others do keeps a non-property, which the module violates."""
    kept = {run.module for run in RUNS if run.kind == "twin" and run.expected == SUCCESS}
    assert kept == SURROUNDED
    for module in MODULES:
        text = (module.folder / f"{module.name}.tla").read_text()
        is_program = "WF_vars(Next)" in text or "_vars(" not in text
        assert module.name in SURROUNDED or is_program or module.name == "AliasReferences", module.name


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("Sessions", "\\A s \\in SessionSet : WF_vars(Proceed(s))", "\\A s \\in SessionSet : SF_vars(Proceed(s))"),
        ("WriteLocks", "WF_vars(GoOn(t))", "SF_vars(GoOn(t))"),
        ("MappedRegions", "SF_vars(Relieve(t))", "SF_vars(Relieve(t)) /\\ SF_vars(Evict(t))"),
    ],
)
def test_strong_fairness_is_refused_unless_a_twin_shows_that_weak_does_not_suffice(
    module: str, old: str, new: str, tmp_path: Path
) -> None:
    shutil.copytree(TLA, tmp_path / "tla")
    (path,) = (tmp_path / "tla").rglob(f"{module}.tla")
    assert path.read_text().count(old) == 1
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(manifest.WrongManifest, match=f"{module}: SF_vars.* is strong fairness"):
        manifest.read_manifest(tmp_path / "tla")


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_every_twin_changes_one_place_which_is_not_the_check_that_it_violates(module: Module) -> None:
    """A check that says something else is violated by nobody's fault; and a constant one TLC calls violated (trap 11).

    That the check can hold is shown by the model, in which it does.
    """
    for run in module.runs:
        if run.edit is not None:
            before = (run.folder / run.edit.file).read_text()
            twin = run.edit.apply(before)
            assert twin != before, run.name
            said, changed = definitions(before), definitions(twin)
            assert len(run.checks) == 1, run.name
            assert said.get(run.checks[0]) == changed.get(run.checks[0]), run.name
            assert said.keys() == changed.keys(), run.name


def test_a_non_property_about_behaviours_is_about_their_steps_or_kept_by_a_twin() -> None:
    """It must be none of the constants that TLC calls violated (trap 11): so it is of the form of a step, or holds in
    a twin.
    """
    kept = {(run.module, *run.checks) for run in RUNS if run.kind == "twin" and run.expected == SUCCESS}
    for run in RUNS:
        if run.kind == "nonproperty" and run.config.properties and (run.module, run.expected) not in kept:
            body = definitions((run.folder / f"{run.module}.tla").read_text())[run.expected]
            assert re.fullmatch(r"\[\]\[.*'.*\]_vars", body, re.DOTALL), run.name


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_every_action_belongs_to_next(module: Module) -> None:
    """TLC counts how often each part of `Next` is taken; of an action that was left out there it says nothing."""
    assert never_in_next((module.folder / f"{module.name}.tla").read_text()) == set()


def test_an_action_that_next_leaves_out_is_noticed() -> None:
    text = (TLA / "tmmu" / "Quota.tla").read_text()
    assert text.count("\\/ Refuse(c) \\/ Fail(c)") == 1
    assert never_in_next(text.replace("\\/ Refuse(c) \\/ Fail(c)", "\\/ Refuse(c)")) == {"Fail"}


def test_every_definition_that_is_checked_is_there_and_every_claim_is_checked() -> None:
    for run in RUNS:
        for check in run.checks:
            assert re.search(rf"^{check} ==", text_of(run), re.MULTILINE), (run.name, check)
    for module in MODULES:
        models = "".join(text_of(run) for run in module.runs if run.kind == "model")
        claimed = " ".join(re.findall(r"^THEOREM .*(?:\n +.*)*", models, re.MULTILINE))
        assert set(module.checks) == {name for name in module.checks if re.search(rf"\b{name}\b", claimed)}, module.name


def test_every_file_belongs_to_the_manifest() -> None:
    configs = {run.folder / f"{run.name}.cfg" for run in RUNS if run.kind == "model"}
    assert set(TLA.rglob("*.cfg")) == configs
    used = {name for run in RUNS for name in re.findall(r"MODULE (\w+)", text_of(run))}
    assert {path.stem for path in TLA.rglob("*.tla") if path.parent != TLA / "traces"} == used
    followed = {f"Follow{module.MODULE}" for module in READERS}
    assert {path.stem for path in (TLA / "traces").iterdir()} == followed
    for name in followed:
        assert f"EXTENDS {name.removeprefix('Follow')}" in (TLA / "traces" / f"{name}.tla").read_text()


def test_every_module_says_in_words_what_it_is() -> None:
    for path in TLA.rglob("*.tla"):
        first, second, *rest = path.read_text().splitlines()
        assert re.fullmatch(rf"-{{4,}} MODULE {path.stem} -{{4,}}", first), path
        assert second.startswith("(*"), path
        if second == f"({'*' * 75})":  # the box, all of whose lines are as wide
            box = rest[: rest.index(second)]
            assert [line for line in (first, *box) if len(line) != len(second)] == [], path
        assert [line for line in rest if len(line) > 120] == [], path


def rows() -> dict[str, str]:
    """The rows of the page's table by module."""
    lines = (TLA / "README.md").read_text().splitlines()
    return {found[1]: line for line in lines if (found := re.match(r"\| \[`(\w+)`\]", line))}


def row_of(module: Module) -> str:
    """The row that the manifest asks for."""
    twins = [run.name.removeprefix(f"{module.name}-") for run in module.runs if run.kind == "twin"]
    models = [run for run in module.runs if run.kind == "model" and run.size == "ci"]
    states = ", ".join(str(run.distinct_states or "must fail") for run in models)
    link = f"{module.folder.name}/{module.name}.tla"
    checks, names = (", ".join(f"`{word}`" for word in words) for words in (module.checks, twins))
    return f"| [`{module.name}`]({link}) | {module.statement} | {checks} | {states} | {names} |"


def test_the_page_has_a_row_for_each_module() -> None:
    assert rows() == {module.name: row_of(module) for module in MODULES}
