"""The colours of a map: one for each role, on every page; and for operators and layers, by how often they occur.

A colour stands out from a white and from a dark page by a contrast of 3 : 1 at least, as WCAG 2.1 asks of graphics, and
the text in it by 4.5 : 1. spec: RP1.9
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tmmu.report.arena_map import ArenaMap

ROLE_COLOURS = {
    "activation": "#0072b2", "parameter": "#9a6f00", "input": "#008f68", "gradient": "#d0500a", "optimizer": "#b3548c",
    "scratch": "#5f7f9a", "": "#0072b2", "shared state": "#b8324f", "shared weight": "#6f7d12",
    "state of other programs": "#7d7d7d",
}  # fmt: skip
"""The colour of each role; "" is a buffer of a plan of lifetimes."""
PALETTE = (
    "#0072b2", "#d0500a", "#008f68", "#b3548c", "#9a6f00", "#5f7f9a", "#7a55c7", "#b8324f", "#6f7d12", "#00878f",
    "#a05a3c", "#4f73d9", "#3f8f3a", "#c0479f", "#8a7560", "#707cb0",
)  # fmt: skip
"""The colours of the most frequent operators or layers."""
OTHER = "#7d7d7d"
"""The colour of all others."""
DOMINANT = 0.9
"""Roles distinguish too little if this part of the storages of an arena has one role."""
SEPARATORS = re.compile(r"[/.:]+")
NUMBERED = re.compile(r"[A-Za-z_]*[_-]?\d+")


class Colouring(NamedTuple):
    """One way to colour the storages of an arena: the category of each, and the colour of each category."""

    key: str
    words: list[str]
    """The category of each storage; `others` for one without a colour of its own."""
    table: dict[str, str]

    @property
    def colours(self) -> list[str]:
        """The colour of each storage."""
        return [self.table[word] for word in self.words]


def colour_storages(one: ArenaMap) -> list[Colouring]:
    """Return the colourings of an arena by role, operator and layer; first the one to begin with. O(n log n)."""
    layers = [name_layer(names.partition("\n")[0]) or "no layer" for names in one.names]
    by_role = Colouring("role", one.role, {role: ROLE_COLOURS.get(role, OTHER) for role in sorted(set(one.role))})
    by_operator, by_layer = _rank("operator", one.operator), _rank("layer", layers)
    most = max((one.role.count(role) for role in by_role.table), default=0)
    if most < DOMINANT * len(one.role):
        return [by_role, by_operator, by_layer]
    if len(by_operator.table) > 1:
        return [by_operator, by_role, by_layer]
    return [by_layer, by_role, by_operator] if len(by_layer.table) > 1 else [by_role, by_operator, by_layer]


def _rank(key: str, words: list[str]) -> Colouring:
    """Give the most frequent words a colour each, and the rest one together."""
    values, counts = np.unique(np.array(words, dtype=str), return_counts=True)
    ranked = [str(value) for value in values[np.argsort(-counts, kind="stable")]]
    table = dict(zip(ranked, PALETTE, strict=False))
    if len(ranked) > len(PALETTE):
        words, table = [word if word in table else "others" for word in words], table | {"others": OTHER}
    return Colouring(key, words, table)


def name_layer(tensor: str) -> str:
    """Return the layer that the name of a tensor states: its parts up to the first that is numbered, "" for none.

    The last part is the tensor's own.

    >>> name_layer("/transformer/h.3/attn/MatMul_output_0"), name_layer("blocks_2/conv/w"), name_layer("Add_12")
    ('transformer.h.3', 'blocks_2', '')
    """
    parts = [part for part in SEPARATORS.split(tensor) if part]
    for k, part in enumerate(parts[:-1]):
        if NUMBERED.fullmatch(part):
            return ".".join(parts[: k + 1])
    return ""


def write_over(colour: str) -> str:
    """Return the colour of text on a colour: white, or black where that stands out more."""
    return "#ffffff" if compute_luminance(colour) < 0.179 else "#000000"


def compute_luminance(colour: str) -> float:
    """Return the relative luminance of a colour (WCAG 2.1), from 0 to 1."""
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def compute_live(one: ArenaMap, colouring: Colouring, steps: Sequence[int]) -> dict[str, np.ndarray]:
    """Return the live bytes of each category at some steps. O((n + steps) log n)."""
    words, at = np.array(colouring.words, dtype=str), np.asarray(steps)
    found = {}
    for word in colouring.table:
        rows = np.flatnonzero(words == word)
        born, died = (rows[np.argsort(ends[rows], kind="stable")] for ends in (one.birth, one.death))
        begun = np.concatenate([[0.0], np.cumsum(one.bytes[born])])[np.searchsorted(one.birth[born], at, "right")]
        ended = np.concatenate([[0.0], np.cumsum(one.bytes[died])])[np.searchsorted(one.death[died], at, "left")]
        found[word] = begun - ended
    return found
