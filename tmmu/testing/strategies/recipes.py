"""What random models are made of: recipes, one a node, and the maker that turns a list of them into a model.

A recipe is a few small integers that choose an operator and point back at what was made before. Every recipe means
something whatever came before it, so nothing is rejected and everything shrinks: fewer recipes are fewer nodes, smaller
integers are nearer operands and simpler operators. A recipe may open a body or close one, so that the list stays flat.

Operators are those of ai.onnx where their meaning fits; of the domain `DECLARED` only the model has the meaning.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

from tmmu.core.dims.expressions import Dim, Expression, bounds_of, symbol
from tmmu.core.dtypes import element_alignment, most_bytes, nbytes
from tmmu.core.vocabulary import MAIN, Bindings, Body, Model, Node, Phase, Role, Scratch, Tensor, View

DECLARED = "test"
"""The domain whose operators are in no table: windows, pairs and updates are what the model declares."""

Type = tuple[tuple[Dim, ...], str]
"""A shape and an element type."""

TYPES: tuple[Type, ...] = (
    ((4,), "uint8"), ((2, 2), "uint8"), ((8,), "uint8"), ((2,), "float16"), ((1,), "float32"), ((0,), "uint8"),
    ((3,), "uint8"), ((16,), "uint8"), ((2, 2), "float32"), ((8,), "int4"), ((5,), "int4"), ((), "float64"),
)  # fmt: skip
"""Shapes and element types: many of the same bytes, few of the same shape, one of no bytes."""

WHOLE_VIEWS = ("Reshape", "Identity", "Flatten", "Squeeze", "Unsqueeze")
LEAVES = ("relu", "add", "matmul", "view", "window", "cast", "concat", "split", "pair", "update")
HOLDERS = ("if", "loop", "scan")
KINDS = (*LEAVES, "end", *HOLDERS, "end", *("relu", "add", "window") * 3, "pair", "update")
"""What a recipe makes: a node; a node whose body is opened; or the end of the innermost open body. Some more often."""

TRAITS = (
    "saved", "gradient", "aligned", "aligned", "aligned", "strict", "scratch", "scratch elsewhere", "envelope",
    "odd name",
)  # fmt: skip
"""What sets a node or its results apart; a recipe has one of these, or none."""

ODD_NAMES = ("é", "～", "😀", "T", "~")
"""Names whose order by UTF-8 bytes differs from the one by UTF-16 units, by case or by what a locale says."""

RANGE = (0, 2)
"""The range of the one dimension that a model may leave open."""

DEPTH = 3
"""How deep bodies nest at most."""


class Recipe(NamedTuple):
    """A node to be: hints as bits, a type, operands counted back from the newest value, and a trait if any."""

    kind: str
    hints: int = 0
    like: int = 0
    operands: tuple[int, ...] = ()
    trait: str = ""


class Given(NamedTuple):
    """A tensor that the caller writes: its role and type, and whether it is donated, a graph input, and saved."""

    role: Role
    donated: bool
    listed: bool
    saved: bool
    like: int


class Ending(NamedTuple):
    """What a model states beside its nodes: outputs, alias groups and conflicts to be picked, and records to keep."""

    outputs: tuple[int, ...]
    groups: tuple[int, ...]
    conflicts: tuple[int, ...]
    recorded: bool


def build(givens: Sequence[Given], recipes: Sequence[Recipe], ending: Ending, *, truthful: bool = True) -> Model:
    """The model that recipes say."""
    maker = Maker(truthful)
    for given in givens:
        maker.give(given)
    for recipe in recipes:
        maker.make(recipe)
    while maker.open:
        maker.end(Recipe("end", operands=(0, 1)))
    outputs = maker.pick(ending.outputs)
    groups = maker.grouped(outputs, ending.groups)
    model = Model(
        "random",
        tuple(replace(x, alias_group=groups.get(t)) for t, x in enumerate(maker.tensors)),
        tuple(maker.nodes),
        (Body(-1, "", tuple(maker.listed), tuple(dict.fromkeys(outputs))), *maker.bodies[1:]),
        maker.conflicting(ending.conflicts, groups),
        unproduced=("mask",) if ending.recorded else (),
        bindings=Bindings(
            {"batch": 1} if ending.recorded else {},
            donated=tuple(maker.donated),
            ranges={"m": RANGE} if any(isinstance(dim, Expression) for x in maker.tensors for dim in x.shape) else {},
        ),
        source_digest=bytes(32) if ending.recorded else None,
    )
    opaque = len(maker.bodies) > 1 or any(node.mutates for node in maker.nodes)
    if not opaque or any(tensor.saved_for_backward for tensor in maker.tensors):
        return model
    # Of a model of which no joint graph can be made it must be stated what is saved; a parameter changes nothing.
    kept = Tensor("kept", (1,), "uint8", Role.PARAMETER, 1, saved_for_backward=True)
    return replace(model, tensors=(*model.tensors, kept))


def opened(dim: Dim, number: int) -> Dim:
    """A dimension that is `dim` at its most: at the upper end of the envelope, or at the lower one."""
    if not isinstance(dim, int) or dim < RANGE[1]:
        return dim
    m = symbol("m", *RANGE)
    return dim - RANGE[1] + m if number % 2 else dim - m


def _type(like: int) -> Type:
    return TYPES[like % len(TYPES)]


@dataclass
class _Open:
    """A body whose nodes are being made: its owner, row and values, and the branch that is to follow."""

    owner: int
    body: int
    scope: str
    values: list[int]
    next: str = ""


@dataclass
class Maker:
    """A model in the making: `open` are the bodies that nodes may go into, innermost last, around them `main`.

    For each tensor, `home` is the body that it belongs to, `root` the tensor whose bytes it shows and `place` the first
    of them.
    """

    truthful: bool = True
    tensors: list[Tensor] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    bodies: list[Body] = field(default_factory=lambda: [Body(-1, "", (), ())])
    main: _Open = field(default_factory=lambda: _Open(-1, MAIN, "", []))
    open: list[_Open] = field(default_factory=list)
    holders: dict[int, Recipe] = field(default_factory=dict)
    home: list[int] = field(default_factory=list)
    root: list[int] = field(default_factory=list)
    place: list[int] = field(default_factory=list)
    given: set[int] = field(default_factory=set)
    formal: set[int] = field(default_factory=set)
    listed: list[int] = field(default_factory=list)
    donated: list[str] = field(default_factory=list)

    @property
    def inner(self) -> _Open:
        """The body that the next node goes into."""
        return self.open[-1] if self.open else self.main

    def visible(self) -> list[int]:
        """The values that a node may read, newest last; those of the innermost body come after those around it."""
        return [t for body in (self.main, *self.open) for t in body.values]

    def pick(self, places: Sequence[int]) -> list[int]:
        """Visible values, counted back from the newest; none where there is none."""
        visible = self.visible()
        return [visible[-1 - place % len(visible)] for place in places] if visible else []

    def operands(self, recipe: Recipe, count: int) -> list[int]:
        """Up to `count` operands, at least one where there is a value."""
        return self.pick((recipe.operands or (0,))[:count])

    def give(self, given: Given) -> None:
        """A tensor that the caller writes."""
        t = self.tensor(TYPES[given.like % len(TYPES)], "saved" if given.saved else "", given.role)
        self.given.add(t)
        self.main.values.append(t)
        if given.role is Role.INPUT or given.listed:
            self.listed.append(t)
        if given.donated:
            self.donated.append(self.tensors[t].name)

    def make(self, recipe: Recipe) -> None:
        """What the recipe says; an end where nothing is open is nothing."""
        if recipe.kind in HOLDERS:
            self.hold(recipe)
        elif recipe.kind != "end":
            getattr(self, f"_{recipe.kind}")(recipe)
        elif self.open:
            self.end(recipe)

    def tensor(self, of: Type, trait: str, role: Role = Role.ACTIVATION, view: View | None = None) -> int:
        """A new tensor of the innermost open body, not yet visible."""
        shape, dtype = of
        number = len(self.tensors)
        stem = ODD_NAMES[number % len(ODD_NAMES)] if trait == "odd name" else "t"
        alignment = 1 if view else element_alignment(dtype)
        place = self.place[view.base] + view.offset if view else 0
        if trait == "aligned" and place % 4 == 0 and (view is None or view.offset % 4 == 0):
            alignment = max(4, alignment)
        if trait == "strict" and view is None:
            alignment = 256
        if trait == "gradient" and role is Role.ACTIVATION:
            role = Role.GRADIENT
        if trait == "envelope" and view is None:
            shape = tuple(opened(dim, number + axis) for axis, dim in enumerate(shape))
        size = most_bytes(shape, dtype)
        assert size is not None
        name, saved = f"{self.inner.scope}{stem}{number}", trait == "saved"
        self.tensors.append(Tensor(name, shape, dtype, role, size, alignment, view, None, saved))
        self.home.append(self.inner.body)
        self.root.append(self.root[view.base] if view else number)
        self.place.append(place)
        return number

    def like(self, t: int) -> Type:
        """The type of a tensor."""
        return self.tensors[t].shape, self.tensors[t].dtype

    def node(
        self, op: str, recipe: Recipe, reads: Sequence[int], writes: Sequence[int], domain: str = "",
        hints: Sequence[tuple[int, int]] = (), mutates: tuple[int, ...] = (),
    ) -> int:  # fmt: skip
        """Add a node to the innermost open body, with those of `hints` that the recipe's bits choose."""
        chosen = tuple(hint for bit, hint in enumerate(hints) if recipe.hints >> bit & 1)
        scratch = {"scratch": (Scratch(recipe.like, 1),), "scratch elsewhere": (Scratch(3, 8, "gradients"),) * 2}
        phase = Phase.BACKWARD if recipe.trait == "gradient" else Phase.FORWARD
        name, requests = f"{self.inner.scope}n{len(self.nodes)}", scratch.get(recipe.trait, ())
        self.nodes.append(
            Node(name, op, tuple(reads), tuple(writes), domain, self.inner.body, chosen, mutates, requests, phase)
        )
        self.inner.values += [t for t in writes if t not in mutates]
        return len(self.nodes) - 1

    def _relu(self, recipe: Recipe) -> None:
        operand = self.operands(recipe, 1)
        if not operand:
            self.node("RandomNormal", recipe, (), [self.tensor(_type(recipe.like), recipe.trait)])
            return
        made = self.tensor(self.like(operand[0]), recipe.trait)
        if self.tensors[operand[0]].view is not None:
            recipe = recipe._replace(hints=1)  # windows are seldom free to be taken, so each is wanted
        self.node("Relu", recipe, operand, [made], hints=[(made, operand[0])])

    def _add(self, recipe: Recipe) -> None:
        """The result is like the first operand; the second may have to be broadcast, and its hint be wrong.

        One in two adds what shows the same bytes, where there is such a thing, and requests them.
        """
        operands = self.operands(recipe, 2)
        if operands and recipe.like % 2:
            same = [t for t in self.visible() if self.root[t] == self.root[operands[0]] and t != operands[0]]
            operands, recipe = [operands[0], *same[-1:]], recipe._replace(hints=recipe.hints | 1)
        made = self.tensor(self.like(operands[0]) if operands else _type(recipe.like), recipe.trait)
        self.node("Add", recipe, operands, [made], hints=[(made, t) for t in dict.fromkeys(operands)])

    def _cast(self, recipe: Recipe) -> None:
        operand = self.operands(recipe, 1)
        shape = self.tensors[operand[0]].shape if operand else ()
        made = self.tensor((shape, _type(recipe.like)[1]), recipe.trait)
        self.node("Cast", recipe, operand, [made], hints=[(made, t) for t in operand])

    def _matmul(self, recipe: Recipe) -> None:
        operands, made = self.operands(recipe, 2), self.tensor(_type(recipe.like), recipe.trait)
        hints = [] if self.truthful else [(made, t) for t in dict.fromkeys(operands)]
        self.node("MatMul", recipe, operands, [made], hints=hints)

    def _concat(self, recipe: Recipe) -> None:
        self.node("Concat", recipe, self.pick(recipe.operands), [self.tensor(_type(recipe.like), recipe.trait)])

    def _split(self, recipe: Recipe) -> None:
        made = [self.tensor(_type(recipe.like + k), recipe.trait) for k in range(2)]
        self.node("Split", recipe, self.operands(recipe, 1), made)

    def _base(self, recipe: Recipe) -> int | None:
        """A value that may be viewed here: of this body, and no formal input."""
        own = [t for t in self.inner.values if t not in self.formal]
        return own[-1 - (recipe.operands or (0,))[0] % len(own)] if own else None

    def _view(self, recipe: Recipe) -> None:
        base = self._base(recipe)
        if base is None:
            self._relu(recipe)
            return
        shape, dtype = self.like(base)
        viewed = shape if recipe.hints % 2 else (1, *shape)
        made = self.tensor((viewed, dtype), recipe.trait, view=View(base, 0, self.tensors[base].bytes))
        self.node(WHOLE_VIEWS[recipe.like % len(WHOLE_VIEWS)], recipe, [base], [made])

    def _window(self, recipe: Recipe) -> None:
        """One or two windows into a base, which may have bytes in common."""
        base = self._base(recipe)
        if base is None:
            self._relu(recipe)
            return
        made, size = [], max(0, bounds_of(nbytes(*self.like(base))).low)
        for k in range(1 + recipe.hints % 2):
            offset = (recipe.hints // 2 * (k + 1)) % (size + 1)
            length = min(size - offset, recipe.like + 1)
            window = View(base, offset, length, (1,) if recipe.like % 2 else None)
            made.append(self.tensor(((length,), "uint8"), recipe.trait, view=window))
        self.node("Window", recipe, [base, *self.pick(recipe.operands[1:2])], made, DECLARED)

    def _pair(self, recipe: Recipe) -> None:
        """Two results that may take an operand each, or both the same one."""
        operands = self.operands(recipe, 2)
        if not operands:
            self._split(recipe)
            return
        first, last = operands[0], operands[-1]
        a, b = (self.tensor(self.like(t), recipe.trait) for t in (first, last))
        self.node("Pair", recipe, operands, [a, b], DECLARED, [(a, first), (b, last), (b, first)])

    def _update(self, recipe: Recipe) -> None:
        """Overwrites a value; a result may want its bytes, or another operand's. Its views are used no more."""
        free = [t for t in self.visible() if not self.truthful or self._changeable(t)]
        if not free:
            self._relu(recipe)
            return
        changed = free[-1 - (recipe.operands or (0,))[0] % len(free)]
        others = self.pick(recipe.operands[1:2])
        if self.truthful:
            others = [t for t in others if self.root[t] != self.root[changed]]
            self.inner.values = [t for t in self.inner.values if t == changed or self.root[t] != changed]
        made = [self.tensor(self.like(changed), recipe.trait)] if recipe.like % 2 else []
        hints = [(new, old) for new in made for old in (changed, *others)]
        self.node("Update", recipe, [changed, *others], [changed, *made], DECLARED, hints, (changed,))

    def _changeable(self, t: int) -> bool:
        """No view, nothing that the caller keeps, and all its views are of the innermost body, where they can end."""
        views = [v for v in range(len(self.tensors)) if v != t and self.root[v] == t]
        ends = all(self.home[v] == self.inner.body and not self.tensors[v].saved_for_backward for v in views)
        kept = t in self.given and self.tensors[t].name not in self.donated
        return self.root[t] == t and ends and not kept

    def hold(self, recipe: Recipe) -> None:
        """A node whose first body is opened; its results are made when the last is closed: none is read inside."""
        if len(self.open) == DEPTH:
            self._relu(recipe)
            return
        reads = self.operands(recipe, 1 if recipe.kind == "if" else 2)
        owner = self.node(recipe.kind.capitalize(), recipe._replace(hints=0), reads, ())
        self.holders[owner] = recipe
        if recipe.kind == "if":
            self._body(owner, "then_branch", (), "else_branch" if recipe.hints & 4 else "")
        else:
            self._body(owner, "body", [recipe.like + k for k in range(recipe.hints >> 1)])

    def _body(self, owner: int, attribute: str, formals: Sequence[int], following: str = "") -> None:
        scope = f"{self.nodes[owner].name}/{attribute}/"
        self.open.append(_Open(owner, len(self.bodies), scope, [], following))
        inputs = [self.tensor(_type(like), "") for like in formals]
        self.inner.values += inputs
        self.formal.update(inputs)
        self.bodies.append(Body(owner, attribute, tuple(inputs), (), attribute == "body"))

    def end(self, recipe: Recipe) -> None:
        """The innermost body returns what the recipe's operands pick; then comes the other branch, or the results."""
        returned, closed = tuple(self.pick(recipe.operands)), self.open.pop()
        self.bodies[closed.body] = replace(self.bodies[closed.body], outputs=returned)
        if closed.next:
            self._body(closed.owner, closed.next, ())
            return
        owner, holder = self.nodes[closed.owner], self.holders[closed.owner]
        made = [self.tensor(_type(holder.like + k), holder.trait) for k in range(holder.like % 3)]
        hints = tuple((t, owner.reads[0]) for t in made[:1] if owner.reads and holder.hints & 1)
        self.nodes[closed.owner] = replace(owner, writes=tuple(made), in_place=hints)
        self.inner.values += made

    def grouped(self, outputs: Sequence[int], places: Sequence[int]) -> dict[int, str]:
        """Alias groups: for each of `places` two tensors, the second written only when the first is needed no more."""
        first, last = self._needed(outputs)
        pairs = [
            (a, b)
            for a in first
            for b in first
            if self.home[a] == self.home[b] and self.tensors[a].role is self.tensors[b].role and first[a] < first[b]
        ]
        if self.truthful:
            pairs = [(a, b) for a, b in pairs if last[a] < first[b]]
        members: dict[int, list[int]] = {}
        for place in places if pairs else ():
            a, b = pairs[place % len(pairs)]
            together = sorted({*members.get(a, [a]), *members.get(b, [b])}, key=first.__getitem__)
            if not self.truthful or all(last[one] < first[other] for one, other in pairwise(together)):
                members |= dict.fromkeys(together, together)
        return {t: f"group {together[0]}" for t, together in members.items()}

    def _needed(self, outputs: Sequence[int]) -> tuple[dict[int, int], dict[int, float]]:
        """For each tensor that a node makes, no view: the node that makes it, and the last that needs its bytes."""
        first: dict[int, int] = {}
        last: dict[int, float] = {}
        end = list(range(len(self.nodes)))
        for n in reversed(range(len(self.nodes))):
            if self.nodes[n].body != MAIN:
                owner = self.bodies[self.nodes[n].body].owner
                end[owner] = max(end[owner], end[n])
        for n, node in enumerate(self.nodes):
            for t in (*node.reads, *node.writes):
                last[self.root[t]] = max(last.get(self.root[t], 0), end[n])
            for t in node.writes:
                if self.root[t] == t and t not in node.mutates:
                    first[t] = n
        saved = [t for t, tensor in enumerate(self.tensors) if tensor.saved_for_backward]
        for t in (*outputs, *saved, *(t for body in self.bodies for t in body.outputs)):
            last[self.root[t]] = math.inf
        return first, last

    def conflicting(self, places: Sequence[int], groups: dict[int, str]) -> tuple[tuple[int, int], ...]:
        """Pairs that do not share bytes already, declared never to do so; a result and its operand now and then."""
        hints = [pair for node in self.nodes for pair in node.in_place]
        count = len(self.tensors)
        found = {}
        for x, y in pairwise(places) if self.tensors else ():
            a, b = hints[x // 2 % len(hints)] if hints and x % 2 else (x % count, y % count)
            one, other = (groups.get(self.root[t], self.root[t]) for t in (a, b))
            if one != other:
                found[frozenset((a, b))] = (a, b)
        return tuple(found.values())
