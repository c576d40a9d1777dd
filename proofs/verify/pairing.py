"""Pair each plan with the model that it is verified against: `verify-plan --models`.

A plan is paired with the model whose digest its provenance has. If no model has that digest, or the plan states none,
it is paired with the model of its file's name. The pairing decides nothing about the plan: the verdict is against the
model, and says so. A plan without a model, and a model without a plan, are errors. spec: C1.15, C1.16
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from proofs.verify.verdict import NO_PLAN, Verdict
from tmmu.core import canonical, kind
from tmmu.core.errors import TmmuError
from tmmu.core.flags import stem_of_model, stem_of_plan
from tmmu.core.output import count_noun, escape_line, list_names
from tmmu.core.reading import digest_file
from tmmu.ir import files
from tmmu.plans import file

RANK = re.compile(r"\.rank[0-9]+$")
"""The end of the name of a rank's plan, before its suffix."""


class ModelPairs(NamedTuple):
    """The model of each plan, and an error for each plan and model without a partner."""

    models: dict[str, str]
    errors: list[Verdict]


def pair(plans: Sequence[str], models: Iterable[str]) -> ModelPairs:
    """Pair each plan with a model.

    A plan with two possible models is an error that names both. A file that is given under several names is one
    model. Raises OSError for a model that cannot be read. O(bytes of plans and models).
    """
    by_digest, by_stem = defaultdict[bytes, list[str]](list), defaultdict[str, dict[str, None]](dict)
    first: dict[str, str] = {}
    for path in models:
        model = first.setdefault(os.path.realpath(path), path)
        by_stem[stem_of_model(path)][model] = None
    for model in first.values():
        if (digest := digest_of_model(model)) is not None:
            by_digest[digest].append(model)
    found, errors, used = dict[str, str](), list[Verdict](), set[str]()
    undecided: dict[int, Collection[str]] = {}
    for plan in dict.fromkeys(plans):
        stem = stem_of_plan(plan)
        named = by_stem.get(stem) or by_stem.get(RANK.sub("", stem), {})
        digest = digest_in_plan(plan)
        same = by_digest.get(digest, []) if digest is not None else []
        candidates: Collection[str] = same or named
        if len(same) > 1 and len(both := set(same).intersection(named)) == 1:
            candidates = both
        if len(candidates) == 1:
            [found[plan]] = candidates
            used.add(found[plan])
        elif candidates:
            undecided[id(candidates)] = candidates
            what = "have its digest" if same else "have its name, and none its digest"
            text = f"it may be of several models: {list_names(list(candidates))} {what}"
            errors.append(_error(plan, f"{text}; give the one that it is of with --model"))
        else:
            text = f"none of {count_noun(len(first), 'model')} has its digest, or its name {RANK.sub('', stem)}"
            errors.append(_error(plan, f"{text}; add its model to --models"))
    used.update(*undecided.values())
    text = "no plan that is given is of this model; plan it, or leave it out of --models"
    errors += (_error(model, text) for model in first.values() if model not in used)
    return ModelPairs(found, errors)


def digest_of_model(path: str) -> bytes | None:
    """Return the digest that a plan of the model states: that in an IR file, or the SHA-256 of an ONNX file.

    Returns None for an IR file without a digest, for one that cannot be read, and for a named pipe. Raises OSError.
    """
    if not os.path.isfile(path):
        return None
    try:
        if kind.is_ir(path):
            return files.load(path).source_digest
    except TmmuError:
        return None
    return bytes.fromhex(digest_file(path))


def digest_in_plan(path: str) -> bytes | None:
    """Return the digest of the model that a plan of ours states, None if it states none.

    The plan is not checked: that is for its verdict. O(bytes).
    """
    if kind.kind_of(path) != kind.PLAN:
        return None
    try:
        data = canonical.read_bounded(path, file.LIMIT)
        value: Any = None if kind.text_kind(data) is not None else canonical.decode(data)
    except (OSError, TmmuError):
        return None
    origin = value.get("provenance") if isinstance(value, dict) else None
    digest = origin.get("source_digest") if isinstance(origin, dict) else None
    return digest if isinstance(digest, bytes) else None


def _error(path: str, text: str) -> Verdict:
    return Verdict(path, "ERROR", NO_PLAN, "", notes=[escape_line(f"{path}: {text}")])
