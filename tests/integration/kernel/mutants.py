"""`make kernel-mutants`: break each part of checker and definitions in turn, and see a proof fail. Prints a table.

A part of the checker whose loss no proof notices would be one that the theorem does not need, or a theorem that states
too little; a part of `Safe.v` or `Run.v`, one that neither proofs nor examples need, so that the theorem could become
empty. Each mutant is one edit of a definition; the proofs are left as they are. Ends with 1 if one survives.
spec: V6.5, V6.8, V6.9
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from proofs.proving.kernel.installed import ORDER, SOURCES
from tests.integration.kernel.definitions import OF_DEFINITIONS
from tests.integration.kernel.files import OF_FILES
from tests.integration.kernel.of_sets import OF_SETS
from tests.integration.kernel.streams import OF_STREAMS


class Mutant(NamedTuple):
    """In words, what is changed into what, and the file that is changed."""

    what: str
    old: str
    new: str
    file: str = "Check"


MUTANTS = (
    Mutant("storages may end beyond their arena", "(s_offset s + s_bytes s <=? limit a) &&&", ""),
    Mutant("storages may be dead before they are born", "(s_birth s <=? s_death s) &&&", ""),
    Mutant("storages need not be aligned", "(s_offset s mod s_alignment s =? 0) &&&", ""),
    Mutant("the arena's alignment does not count", "&&& (s_offset s mod least_alignment a =? 0).", "."),
    Mutant("any positive number is a power of two", "(1 <=? x) && (U64 mod x =? 0)", "(1 <=? x)"),
    Mutant("arenas that do not reuse do, by birth", "if reuse p (s_arena s) then s_birth s else 0", "s_birth s"),
    Mutant("arenas that do not reuse do, by death",
           "if reuse p (s_arena s) then s_death s else last_step p", "s_death s"),
    Mutant("a storage need not be listed in its slot", "&&& listed (tenants p) (s_slot s) (s_place s) k.", "."),
    Mutant("a storage may lie in another arena than its slot", "&&& (k_arena h =? s_arena s) &&&", "&&&"),
    Mutant("a storage may begin before its slot's range", "(k_offset h <=? s_offset s) &&&", ""),
    Mutant("a storage may end behind its slot's range", "(s_offset s + s_bytes s <=? k_offset h + k_bytes h) &&&", ""),
    Mutant("a slot need not be listed in its arena",
           "&&&\n  listed (ordered p) (s_arena s) (k_place h) (s_slot s)", ""),
    Mutant("storages of a slot may meet in one step", "(ended <? start)", "(ended <=? start)"),
    Mutant("storages of a slot need not take turns", "every (slots p) turns_taken &&&", ""),
    Mutant("slots may overlap", "(stop <=? k_offset h) &&&", ""),
    Mutant("edges need not lead up", "(s_offset s + s_bytes s <=? s_offset y) &&&", ""),
    Mutant("edges may come from another arena", "(s_arena s =? s_arena y) &&&", ""),
    Mutant("edges may come from what is not born yet", "(since s <=? first (edge_at p e)) &&&", ""),
    Mutant("edges may come from what is dead", "&&& (last (edge_at p e) <=? until s))", ")"),
    Mutant("an edge need not be listed where it comes from", "between (ups_at p x) e (ups_at p (x + 1) - 1) &&&", ""),
    Mutant("edges need not tile a lifetime", "(first (edge_at p e) =? from) &&&", ""),
    Mutant("two storages may rest on one", "(ended <? first (edge_at p e))", "(ended <=? first (edge_at p e))"),
    Mutant("storages need not rest on anything", "every (storages p) stands &&&", ""),
    Mutant("lifetimes alone may overlap", "memory_ok &&& forallb kept_apart (pairs p)", "forallb kept_apart (pairs p)"),
    Mutant("storages that must not alias may", "memory_ok &&& forallb kept_apart (pairs p)", "memory_ok"),
    Mutant("a loop's operands may die before it is left", "(snd l <=? needed t)", "(fst l <=? needed t)"),
    Mutant("a view may lie elsewhere than its base", "(window t =? window b + shift t) &&&", ""),
    Mutant("a view may reach beyond its base", "&&& (shift t + bytes t <=? bytes b) &&&", "&&&"),
    Mutant("a view may be a view of itself", "&&& (place b <? place t) &&&", "&&&"),
    Mutant("a view may be made with its root", "(made r <? made t)", "(made r <=? made t)"),
    Mutant("a view may be made of what is dead", "&&& stays b (made t) &&&", "&&&"),
    Mutant("a view may be made by a step that does not read its base",
           "(writer b <? made t) &&&\n     mem (base t) (reads p (made t))", "(writer b <? made t)"),
    Mutant("a view's base may be made by the view's own step", "(writer b <? made t) &&&\n", "\n"),
    Mutant("an operand may be needed after its place is taken", "(needed o =? made t) &&&", ""),
    Mutant("the caller may read what was overwritten in place", "negb (returned o) &&&", ""),
    Mutant("inputs that are not donated may be overwritten", "(negb (writer o =? -1) || donated o) &&&", ""),
    Mutant("the next iteration may need the operand", "&&& negb (leaves (made t))", ""),
    Mutant("an in-place result may be larger than its operand", "&&& (bytes t =? bytes o)", ""),
    Mutant("a tensor may reach beyond its storage", "(window t + bytes t <=? s_bytes s) &&&", ""),
    Mutant("a tensor may be born before its storage", "(s_birth s <=? birth t) &&&", ""),
    Mutant("a tensor's address need not be aligned", "(address t mod alignment t =? 0) &&&", ""),
    Mutant("a tensor may be needed after its death", "(needed t <=? death t) &&&", ""),
    Mutant("what the caller reads may be dead", "(needed t =? last_step p) &&&", ""),
    Mutant("the caller may read what one arm writes", "&&& ((writer t =? -1) || written_before i t (steps p))", ""),
    Mutant("the writer need not write", "mem i (writes p (writer t))", "true"),
    Mutant("a tensor need not be listed in its storage", "listed (members p) (home t) (place t) i", "true"),
    Mutant("reads may come with the write", "(writer t <? n)", "(writer t <=? n)"),
    Mutant("reads may come outside of the lifetime", "(if stays t n then", "(if true then"),
    Mutant("tensors may be written twice", "(mem w (mutates p n) && (negb", "(true && (negb"),
    Mutant("what the caller owns may be changed", "(negb (writer t =? -1) || donated t))) &&&", "true)) &&&"),
    Mutant("a change may disturb what stays", "(base t =? -1) &&& undisturbed n w t)", "(base t =? -1))"),
    Mutant("slices may overlap by one byte",
           "window s + bytes s <=? window t.", "window s + bytes s <=? window t + 1."),
    Mutant("tensors of one storage may share bytes", "(root (snd earlier) =? root t) ||", "true ||"),
    Mutant("what is needed last at a step is dead there", "made t <=? needed (snd", "made t <? needed (snd"),
    Mutant("the caller may write two tensors to one byte",
           "forallb (compatible j t) still", "((needed t <? 0) || forallb (compatible j t) still)"),
    Mutant("tensors of a storage come in any order", "(now <=? made t) &&&", ""),
    Mutant("the next iteration's values may disturb", "undisturbed (snd l) w (tensor_at p w))", "true)"),
    Mutant("loops may be left before they are entered", "(fst l <? snd l) &&&", ""),
    Mutant("tensors that must not alias may", "negb (s_arena s =? s_arena t) ||", "true ||"),
    Mutant("arms may begin anywhere", "(fst a =? from) &&& (from - 1", "(from - 1"),
    Mutant("arms need not fill their node", "| [] => from =? stop", "| [] => true"),
    Mutant("a node may have no arm", "match arms v with [] => false | _ => true end &&& follow", "follow"),
    Mutant("a step's range may be wider than its arm", "(fst a <=? fst (within p n)) &&& (snd (within p n) <=? snd a)",
           "(fst a <=? fst (within p n))"),
    Mutant("loops may leave an arm", "&&& covers (fst l) (snd l) &&&", "&&&"),
    Mutant("a node may be left in an arm it did not enter in", "covers (leave v) (enter v) &&&", ""),
    Mutant("a loop's leave may take from arms", "negb (leaves (leave v)) &&&", ""),
    Mutant("two nodes may have one leave", "((x =? 0) || (leave (exclusive_at p (x - 1)) <? leave v)) &&&", ""),
    Mutant("steps of one arm are siblings",
           "&&\n    negb (existsb (fun a => in_range a n && in_range a m) (arms v))", ""),
    Mutant("two writers need not exclude each other", "all_siblings (writers i t) &&&", ""),
    Mutant("one arm may leave a result unwritten", "all_join (writers i t) (joined p i) &&&", ""),
    Mutant("reads may come from a sibling arm", "((writer t <? n) &&& covers (writer t) n)", "(writer t <? n)"),
    Mutant("reads of another writer may come from a sibling arm", "(z <? n) &&& covers z n) (also p i)",
           "(z <? n)) (also p i)"),
    Mutant("reads may come before all arms have written", "(z <=? n) &&& covers z n", "covers z n"),
    Mutant("an arm's result may die before its arm ends", "existsb (fun a => snd a =? needed t) (arms v) &&", ""),
    Mutant("an arm's result may be of no arm",
           "&&\n  existsb (fun a => existsb (directly a) (writers i t)) (arms v)", ""),
    Mutant("an arm's result may be taken in place before", "negb (handed o) &&&", ""),
    Mutant("a leave may overwrite what it has yet to read",
           "forallb (disjoint_or_taken (leave v) i) (writes p (leave v))", "true"),
    Mutant("a leave may take a place in part", "(address t =? address u) &&", ""),
    Mutant("what is taken may be needed when it is taken", "needed (tensor_at p (snd pair)) <? made",
           "needed (tensor_at p (snd pair)) <=? made"),
    Mutant("a storage may be larger than its slot", "(s_bytes s <=? k_bytes h) &&&", "", "Claims"),
    Mutant("a slot's alignment is any number", "power_of_two (k_alignment h) &&&", "", "Claims"),
    Mutant("a slot may be less aligned than its storages", "(s_alignment s <=? k_alignment h) &&&", "", "Claims"),
    Mutant("storages need not fit their slots", "every (storages p) fits_slot &&&", "", "Claims"),
    Mutant("claimed slots need not take turns",
           "(if by_slots p then true else every (slots p) (turns_taken p))", "true", "Claims"),
    Mutant("the footprint may exceed the capacity",
           "(fun a => footprint (arena_at p a) <=? capacity (arena_at p a))", "(fun _ => true)", "Claims"),
    Mutant("storages may end beyond the footprint",
           "scattered a || (s_offset s + s_bytes s <=? footprint a)", "true", "Claims"),
    Mutant("a slot may be empty when all are full",
           "&& (s_slot (storage_at p k) =? s) && lives k t", "&& true", "Claims"),
    Mutant("dead bytes count as live",
           "(s_arena (storage_at p k) =? a) && lives k t", "(s_arena (storage_at p k) =? a)", "Claims"),
    Mutant("only half of the rows are looked at",
           "f start &&& every_from half (start + 1) f &&&", "f start &&&", "Lists"),
    Mutant("words of a wrong plan are accepted", "with_accesses word &&& check (plan_of word)", "with_accesses word"),
    Mutant("an input that nobody reads again is kept", "donated t || returned t.", "donated t || true.", "Inputs"),
    Mutant("inputs need not be kept", "every (tensors p) (kept_if_given p)", "true", "Inputs"),
    *(
        Mutant(f"{file}: {what}", old, new, file)
        for file, what, old, new in OF_DEFINITIONS + OF_FILES + OF_SETS + OF_STREAMS
    ),
)  # fmt: skip


def compiles(folder: Path, names: tuple[str, ...]) -> str | None:
    """The file whose proof fails, or None where all go through."""
    for name in names:
        command = ["coqc", "-q", "-Q", ".", "Tmmu", f"{name}.v"]
        if subprocess.run(command, cwd=folder, capture_output=True, check=False, timeout=3600).returncode:
            return name
    return None


def dependents(name: str) -> tuple[str, ...]:
    """The files of the theory that need the file `name`, directly or not, in the order in which they are compiled."""
    found = {name}
    for file in ORDER:
        needed = re.findall(r"From Tmmu Require Import ([^.]*)\.", (SOURCES / f"{file}.v").read_text())
        if found.intersection(" ".join(needed).split()):
            found.add(file)
    return tuple(file for file in ORDER if file in found and file != name)


def verdict(mutant: Mutant, clean: Path) -> str | None:
    """The file whose proof notices the mutant, or None."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(shutil.copytree(clean, Path(name) / "theory"))
        path = folder / f"{mutant.file}.v"
        text = path.read_text()
        if text.count(mutant.old) != 1:
            raise SystemExit(f"{mutant.what}: {mutant.old!r} stands {text.count(mutant.old)} times in {path.name}")
        path.write_text(text.replace(mutant.old, mutant.new))
        if compiles(folder, (mutant.file,)) is not None:
            raise SystemExit(f"{mutant.what}: the mutant is no definition")
        return compiles(folder, dependents(mutant.file))


def count_survivors(wanted: Sequence[Mutant]) -> int:
    """Print for each mutant the file that notices it, and return how many survive."""
    survived = 0
    with tempfile.TemporaryDirectory() as name:
        clean = Path(name)
        for part in ORDER:
            shutil.copy(SOURCES / f"{part}.v", clean)
        if (broken := compiles(clean, ORDER)) is not None:
            raise SystemExit(f"{broken}.v itself does not compile")
        for mutant in wanted:
            noticed = verdict(mutant, clean)
            survived += noticed is None
            print(f"{mutant.what:56} {f'breaks {noticed}.v' if noticed else 'SURVIVES'}", flush=True)
    print(f"{len(wanted) - survived} of {len(wanted)} mutants break the proof")
    return survived


def main() -> int:
    """Run all mutants, or those that an argument names a part of."""
    return int(count_survivors([m for m in MUTANTS if all(word in m.what for word in sys.argv[1:])]) > 0)


if __name__ == "__main__":
    sys.exit(main())
