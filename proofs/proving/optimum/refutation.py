"""Search for a proof that the formula of a lower placement is unsatisfiable, and write it in VeriPB's format.

Nothing here is trusted: VeriPB reads the formula and the proof, and checks each line. The search is clause learning
(Marques-Silva and Sakallah, IEEE Trans. Computers 48 (1999)) over the formula's own constraints and one more for each
section. In each of the former, exactly one variable is true. The latter states that the free cells together have at
most the bytes that the height leaves. The proof derives it by adding cells and storages, each multiplied by its bytes,
rounded up to the unit of all offsets. Every learned clause follows by unit propagation. The work is counted in
conflicts, never in time. spec: V5.7
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from proofs.proving.optimum.formula import LowerPlacement

CONFLICTS = 20_000
"""The maximum number of conflicts of a search, which takes a minute or two."""


def refute(formula: LowerPlacement, conflicts: int = CONFLICTS) -> str | None:
    """Return a proof that `formula` has no solution.

    Returns None if it has one, or if no proof was found within this number of conflicts.
    """
    search = _Search(formula)
    lines = [f"pol {text} ;" for text in _spare(formula)]
    lines += [
        f"rup {' '.join(f'1 {_literal(literal)}' for literal in learned)} >= 1 ;"
        for learned in search.clauses(conflicts)
    ]
    if search.satisfiable is not False:
        return None
    given = 2 * len(search.rows)  # VeriPB counts each equation as two constraints, from below and from above
    end = f"output NONE ;\nconclusion UNSAT : {given + len(lines)} ;\nend pseudo-Boolean proof ;\n"
    return "\n".join(["pseudo-Boolean proof version 3.0", f"f {given} ;", *lines, end])


def _literal(literal: int) -> str:
    return f"x{literal}" if literal > 0 else f"~x{-literal}"


def _spare(formula: LowerPlacement) -> Iterator[str]:
    """Yield, for each section, how VeriPB adds its constraints: free cells, and bytes covered beyond sizes, are few."""
    number = 1 + len(formula.places)
    for cells, members in zip(formula.cells, formula.members, strict=True):
        # The k-th equation has the numbers 2k - 1, from below, and 2k, from above.
        terms = [(2 * (number + k), cell.bytes) for k, cell in enumerate(cells)]
        terms += [(2 * i + 1, formula.padded(i)) for i in members]
        yield " ".join(f"{at} {times} *{' +' if k else ''}" for k, (at, times) in enumerate(terms))
        number += len(cells)


class _Search:
    """Clause learning. A literal is a variable or its negative; `value[v]` is 0 while it is open."""

    def __init__(self, formula: LowerPlacement) -> None:
        self.rows = list(formula.ones())
        n = len(formula.choices) + 1
        self.rows_of: list[list[int]] = [[] for _ in range(n)]
        for r, row in enumerate(self.rows):
            for v in row:
                self.rows_of[v].append(r)
        excluded: list[dict[int, None]] = [{} for _ in range(n)]
        for row in self.rows:
            for v in row:
                excluded[v].update(dict.fromkeys(row))
        self.excluded = [[u for u in found if u != v] for v, found in enumerate(excluded)]
        self.spare, self.weight = list[int](), list[dict[int, int]]()
        self.sections_of: list[list[int]] = [[] for _ in range(n)]
        for cells, members in zip(formula.cells, formula.members, strict=True):
            weight: dict[int, int] = {}
            for cell in cells:
                for v in cell.covered_by:
                    weight[v] = weight.get(v, 0) + cell.bytes
            for i in members:
                for v in formula.places[i]:
                    weight[v] -= formula.padded(i)
            weight = dict(sorted(((v, w) for v, w in weight.items() if w), key=lambda item: (-item[1], item[0])))
            for v in weight:
                self.sections_of[v].append(len(self.spare))
            self.weight.append(weight)
            self.spare.append(sum(cell.bytes for cell in cells) - sum(map(formula.padded, members)))
        self.value = [0] * n
        self.level = [0] * n
        self.order = [0] * n
        self.reason: list[tuple[str, int]] = [("", 0)] * n
        self.trail: list[int] = []
        self.marks: list[int] = []
        self.head = 0
        self.open = [len(row) for row in self.rows]
        self.done = [0] * len(self.rows)
        self.activity = [1.0] * len(self.rows)
        self.learned: list[list[int]] = []
        self.watching: dict[int, list[int]] = {}
        self.satisfiable: bool | None = None

    def clauses(self, conflicts: int) -> Iterator[list[int]]:
        """Yield the learned clauses, the last one empty if there is no solution.

        Sets `satisfiable` if that is found.
        """
        conflict = self._begin()
        step = 1.0
        for _ in range(conflicts):
            while conflict is None:
                decision = self._decide()
                if decision is None:
                    self.satisfiable = True
                    return
                self.marks.append(len(self.trail))
                self._set(decision, ("", 0))
                conflict = self._propagate()
            if not self.marks:
                self.satisfiable = False
                yield []
                return
            step *= 1.02
            clause, back = self._analyse(conflict, step)
            if step > 1e80:
                self.activity = [value / step for value in self.activity]
                step = 1.0
            yield clause
            self._undo(back)
            self.learned.append(clause)
            number = len(self.learned) - 1
            for literal in clause[:2]:
                self.watching.setdefault(literal, []).append(number)
            self._set(clause[0], ("learned", number))
            conflict = self._propagate()

    def _begin(self) -> tuple[str, int] | None:
        for r, row in enumerate(self.rows):
            if not row:
                return ("row", r)
        for c, spare in enumerate(self.spare):
            if spare < 0:
                return ("section", c)
            for v, weight in self.weight[c].items():
                if weight <= spare:
                    break
                if not self.value[v]:
                    self._set(-v, ("section", c))
        for r, row in enumerate(self.rows):
            if len(row) == 1 and not self.value[row[0]]:
                self._set(row[0], ("row", r))
        return self._propagate()

    def _set(self, literal: int, reason: tuple[str, int]) -> None:
        v = abs(literal)
        self.value[v] = 1 if literal > 0 else -1
        self.level[v], self.reason[v], self.order[v] = len(self.marks), reason, len(self.trail)
        self.trail.append(literal)

    def _undo(self, level: int) -> None:
        mark = self.marks[level]
        for at in range(len(self.trail) - 1, mark - 1, -1):
            literal = self.trail[at]
            v = abs(literal)
            self.value[v] = 0
            if at < self.head:
                self._count(literal, -1)
        del self.trail[mark:], self.marks[level:]
        self.head = min(self.head, mark)

    def _count(self, literal: int, by: int) -> None:
        """Update rows and sections for a literal that is propagated (`by` is 1), or no longer is (-1)."""
        if literal > 0:
            for r in self.rows_of[literal]:
                self.done[r] += by
            for c in self.sections_of[literal]:
                self.spare[c] -= by * self.weight[c][literal]
        else:
            for r in self.rows_of[-literal]:
                self.open[r] -= by

    def _propagate(self) -> tuple[str, int] | None:
        """Set all literals that follow. Return the contradicted constraint, if any."""
        while self.head < len(self.trail):
            literal = self.trail[self.head]
            self.head += 1
            self._count(literal, 1)
            found = self._of_true(literal) if literal > 0 else self._of_false(-literal)
            if found is None:
                found = self._of_learned(literal)
            if found is not None:
                return found
        return None

    def _of_true(self, v: int) -> tuple[str, int] | None:
        value = self.value
        for u in self.excluded[v]:
            if value[u] > 0:
                return ("both", v) if self.order[u] < self.order[v] else ("both", u)
            if not value[u]:
                self._set(-u, ("other", v))
        for c in self.sections_of[v]:
            spare = self.spare[c]
            if spare < 0:
                return ("section", c)
            for u, weight in self.weight[c].items():
                if weight <= spare:
                    break
                if not value[u]:
                    self._set(-u, ("section", c))
        return None

    def _of_false(self, v: int) -> tuple[str, int] | None:
        for r in self.rows_of[v]:
            if self.open[r] == 0:
                return ("row", r)
            if self.open[r] == 1 and not self.done[r]:
                for u in self.rows[r]:
                    if not self.value[u]:
                        self._set(u, ("row", r))
                        break
        return None

    def _of_learned(self, literal: int) -> tuple[str, int] | None:
        value, kept = self.value, []
        watching = self.watching.get(-literal, [])
        for at, number in enumerate(watching):
            clause = self.learned[number]
            if clause[0] == -literal and len(clause) > 1:
                clause[0], clause[1] = clause[1], clause[0]
            first = clause[0]
            if value[abs(first)] * first > 0:
                kept.append(number)
                continue
            for k in range(2, len(clause)):
                other = clause[k]
                if value[abs(other)] * other >= 0:
                    clause[1], clause[k] = clause[k], clause[1]
                    self.watching.setdefault(other, []).append(number)
                    break
            else:
                kept.append(number)
                if value[abs(first)]:
                    self.watching[-literal] = kept + watching[at + 1 :]
                    return ("learned", number)
                self._set(first, ("learned", number))
        if watching:
            self.watching[-literal] = kept
        return None

    def _because(self, reason: tuple[str, int], before: int) -> Iterable[int]:
        """Return the true literals that imply the literal set as number `before`, or a contradiction."""
        kind, number = reason
        if kind == "other":
            return [number]
        if kind == "row":
            return [-u for u in self.rows[number] if self.value[u] < 0 and self.order[u] < before]
        if kind == "section":
            return [u for u in self.weight[number] if self.value[u] > 0 and self.order[u] < before]
        return [-u for u in self.learned[number] if self.value[abs(u)] * u < 0 and self.order[abs(u)] < before]

    def _analyse(self, conflict: tuple[str, int], step: float) -> tuple[list[int], int]:
        """Return the clause of the first unique implication point, that one first, and the level to return to."""
        seen, clause, count, at = set[int](), [0], 0, len(self.trail)
        if conflict[0] == "both":
            u = conflict[1]
            because: Iterable[int] = [u, *(w for w in self.excluded[u] if self.value[w] > 0)][:2]
        else:
            because = self._because(conflict, at)
        reason = conflict
        while True:
            if reason[0] == "row":
                self.activity[reason[1]] += step
            for literal in because:
                v = abs(literal)
                if v in seen or self.level[v] == 0:
                    continue
                seen.add(v)
                if self.level[v] == len(self.marks):
                    count += 1
                else:
                    clause.append(-literal)
            at -= 1
            while abs(self.trail[at]) not in seen:
                at -= 1
            literal = self.trail[at]
            count -= 1
            if count == 0:
                clause[0] = -literal
                break
            reason = self.reason[abs(literal)]
            because = self._because(reason, at)
        if len(clause) == 1:
            return clause, 0
        latest = max(range(1, len(clause)), key=lambda k: self.level[abs(clause[k])])
        clause[1], clause[latest] = clause[latest], clause[1]
        return clause, self.level[abs(clause[1])]

    def _decide(self) -> int | None:
        """Return the first open variable of the row with the fewest, weighted by its conflicts."""
        best, least = None, 0.0
        for r, done in enumerate(self.done):
            if not done and (best is None or self.open[r] < least * self.activity[r]):
                best, least = r, self.open[r] / self.activity[r]
        return None if best is None else next(v for v in self.rows[best] if not self.value[v])
