"""A text plan is the allocation that it states, and what is wrong with it is named by line and column. spec: X1.6"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import fields, replace
from pathlib import Path

import pytest

from tests.support.text_models import text_model
from tmmu.core.columns import NONE, Names
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import MAX_BODY_DEPTH, MAX_EXCLUSIVE_ARMS, NodePart, Role, Shares
from tmmu.planner import plan_memory
from tmmu.plans import file, text, text_writer
from tmmu.plans.allocation import Allocation, Arena, Buffers
from tmmu.plans.columns import IS_INPUT, IS_OUTPUT, IS_RETURNED, IS_SAVED, PARTS, ROLES, SHARES
from tmmu.plans.sections import BufferPlan, Plan, Usage, amend_plan

HEAD = "tmmu-plan-text 1\n"
PAIR = "arena m 64\ntensor x 8 m 0 input\ntensor y 8 m 8 output\nstep s Relu x -> y\n"


def read(body: str) -> Plan:
    found = text.read((HEAD + body).encode(), "p.plan.txt")
    assert isinstance(found, Plan)
    return found


def read_again(plan: Plan) -> Plan:
    found = text.read(text_writer.write(plan).encode(), "again")
    assert isinstance(found, Plan)
    return found


def rows(allocation: Allocation, *columns: str) -> dict[str, tuple[int, ...]]:
    """Some columns of the tensors by name."""
    tables = [getattr(allocation.tensors, name).tolist() for name in columns]
    return dict(zip(allocation.tensors.name, zip(*tables, strict=True), strict=True))


def lives(body: str) -> dict[str, tuple[int, ...]]:
    return rows(read(body).allocation, "birth", "death")


def test_every_statement_says_what_it_says() -> None:
    """spec: X2.1, X2.2, X2.3, X2.4, X2.7, X1.3, X1.5"""
    plan = read(
        """claim slots "big arena" 3
claim peak m 7
arena "big arena" 1024 align 64
arena m 18446744073709551615 persistent scattered
tensor x 8 "big arena" 0 input donated
tensor w 8 m 0 parameter input align 16
tensor k 8 m 8 optimizer donated
tensor g 8 "big arena" 0 gradient saved type f64
tensor t 4 "big arena" 4 stash type bf16 view g 4
tensor u 8 "big arena" 0 output inplace g
tensor v 8 "big arena" 0 scratch alias g
tensor f 8 "big arena" 64
step a jax.lax::add x w -> g changes g
begin b Loop g -> f loop body b/inner
step c Cut g -> t
arm
end b f -> v
step d Relu g -> u
apart x g
unproduced mask
"""
    )
    a = plan.allocation
    assert a.arenas == (Arena("big arena", 1024, 64), Arena("m", (1 << 64) - 1, 1, reuse=False, scattered=True))
    assert rows(a, "flags") == {
        "x": (IS_INPUT,), "w": (IS_INPUT | IS_RETURNED,), "k": (0,), "g": (IS_SAVED | IS_RETURNED,), "t": (IS_SAVED,),
        "u": (IS_OUTPUT | IS_RETURNED,), "v": (0,), "f": (0,),
    }  # fmt: skip
    roles = [ROLES[row] for row in a.tensors.role.tolist()]
    assert roles[1:7] == [
        Role.PARAMETER, Role.OPTIMIZER, Role.GRADIENT, Role.ACTIVATION, Role.ACTIVATION, Role.SCRATCH,
    ]  # fmt: skip
    assert [a.dtypes[row] for row in a.tensors.dtype.tolist()][3:5] == ["float64", "bfloat16"]
    assert a.tensors.alignment.tolist()[1:5] == [16, 1, 8, 2]
    assert [(SHARES[s], of) for s, of in zip(a.tensors.shares.tolist(), a.tensors.of.tolist(), strict=True)][3:7] == [
        (Shares.NONE, NONE), (Shares.VIEW, 3), (Shares.IN_PLACE, 3), (Shares.ALIAS, 3),
    ]  # fmt: skip
    assert a.tensors.storage.tolist() == [0, 1, 2, 3, 3, 3, 3, 4]
    assert a.tensors.window.tolist()[3:5] == [0, 4]
    assert a.storages.alignment.tolist() == [1, 16, 1, 8, 1]
    assert a.ops == (("jax.lax", "add"), ("", "Loop"), ("", "Cut"), ("", "Relu"))
    assert [PARTS[part] for part in a.steps.part.tolist()] == [
        NodePart.WHOLE,
        NodePart.ENTER,
        NodePart.WHOLE,
        NodePart.LEAVE,
        NodePart.WHOLE,
    ]
    assert (a.steps.body.tolist(), list(a.bodies.name)) == ([0, 0, 1, 0, 0], ["", "b/inner", "b/1"])
    assert (a.bodies.iterates.tolist(), a.bodies.leave.tolist()) == ([0, 1, 1], [NONE, 3, 3])
    assert a.steps.listed("mutates") == [(3,), (), (), (), ()]
    assert (a.must_not_alias, a.unproduced) == (((0, 3),), ("mask",))
    assert plan.claims is not None
    assert plan.claims.usage == (Usage(slots=3), Usage(peak_live_bytes=7))
    assert (plan.claims.slots, plan.provenance) == (None, None)
    assert read_again(plan) == plan


def test_lifetimes_follow_from_the_steps() -> None:
    """spec: X2.5, T1.2, T1.3, T1.4, T1.5, T1.6"""
    arena = "arena m 99\ntensor x 1 m 0 input\ntensor w 1 m 0 parameter donated\ntensor a 1 m 0\ntensor b 1 m 0\n"
    found = lives(
        f"{arena}tensor y 1 m 0 output\ntensor s 1 m 0 saved\nstep 0 A x -> a\nstep 1 A a -> b y s\nstep 2 A ->\n"
    )
    assert found == {"x": (0, 0), "w": (0, 2), "a": (0, 1), "b": (1, 1), "y": (1, 2), "s": (1, 2)}
    # What a loop captures, is given and returns lives over all of it; a copy that it hands on is made on leaving.
    loop = "begin 1 Loop w -> f loop\nstep 2 A a f -> o\nend 1 o c -> c b\nstep 3 A b ->\n"
    words = "".join(f"tensor {name} 1 m 0\n" for name in "foc")
    found = lives(f"{arena}{words}step 0 A x -> a\n{loop}")
    assert found == {"x": (0, 0), "w": (0, 4), "a": (0, 3), "b": (1, 4), "f": (1, 3), "o": (2, 3), "c": (3, 3)}


def test_exclusive_arms_may_write_one_result_and_hand_on_their_own() -> None:
    """`end` takes what one arm alone writes after that arm's last step. spec: X2.5, X4.3, X4.5"""
    names = "".join(f"tensor {name} 1 m 0\n" for name in "abty")
    arms = "arena m 9\ntensor c 1 m 0 input\n" + names
    arms += "begin n If c -> exclusive\nstep 1 A -> a t\nstep 2 A ->\narm\nstep 3 A -> b t\nend n a b -> y\n"
    assert lives(arms) == {"c": (0, 0), "a": (1, 2), "b": (3, 3), "t": (1, 3), "y": (4, 4)}
    assert lives(arms.replace(" exclusive", ""))["a"] == (1, 4)


def test_what_shares_lies_in_one_storage_only_where_it_says_that_it_does() -> None:
    """spec: X2.5, T2.1"""
    line = "arena m 64\ntensor x 8 m 0 input\ntensor v 4 m {} view x 4\ntensor w 2 m 6 view v 2\nstep s Cut x -> v w\n"
    assert read(line.format(4)).allocation.tensors.storage.tolist() == [0, 0, 0]
    elsewhere = read(line.format(12)).allocation
    assert elsewhere.tensors.storage.tolist() == [0, 1, 2]
    assert (elsewhere.storages.offset.tolist(), elsewhere.tensors.window.tolist()) == ([0, 12, 6], [0, 0, 0])


def test_lifetimes_alone_are_buffers() -> None:
    """spec: X2.6"""
    found = text.read(
        f"{HEAD}arena m 9\nbuffer p 4 m 1 live 2 3 align 1\nbuffer q 4 m 5 live 0 0\napart q p\n".encode(), "p"
    )
    assert isinstance(found, BufferPlan)
    s = found.buffers.storages
    assert [c.tolist() for c in (s.arena, s.bytes, s.offset, s.birth, s.death)] == [
        [0, 0],
        [4, 4],
        [1, 5],
        [2, 0],
        [3, 0],
    ]
    assert (list(found.buffers.name), found.buffers.must_not_alias, found.claims) == (["p", "q"], ((1, 0),), None)
    assert text.read(text_writer.write(found).encode(), "p") == found


@pytest.mark.parametrize(
    ("body", "at", "what"),
    [
        ("tenser x 8 m 0", "2:1", "unknown statement tenser"),
        ("arena m 0", "2:9", "from 1 to"),
        ("arena m 18446744073709551616", "2:9", "got 18446744073709551616"),
        ("arena m 0x10", "2:9", "got 0x10"),
        ("arena m 64 align 12", "2:18", "power of two"),
        ("arena m 64\narena m 64", "3:7", "arena 'm' is declared twice"),
        ("tensor x 8 m 0", "2:12", "no line declares the arena 'm'; add one: arena m …"),
        ("arena act 64\ntensor x 8 acts 0", "3:12", "did you mean act"),
        ("arena m 64\ntensor x 8 m", "3:13", "the end of the line"),
        ("arena m 64\ntensor x 8 m 0 view x", "3:22", "the end of the line"),
        ("arena m 64\ntensor x 8 m 0 inplace y", "3:24", "no line declares the tensor 'y'; add one: tensor y …"),
        ("arena m 64\ntensor x 8 m 0 inplace x", "3:8", "shares with itself"),
        ("arena m 64\ntensor x 8 m 0 alias y\ntensor y 8 m 0 alias x", "3:8", "shares with itself"),
        ("arena m 64\ntensor x 8 m 0\ntensor y 8 m 0 alias x inplace x", "4:24", "shares with two"),
        ("arena m 64\ntensor x 8 m 0 type f33", "3:21", "expected an element type"),
        ("arena m 64\ntensor x 8 m 0 parameter scratch", "3:26", "it already has the role parameter"),
        ("arena m 64\ntensor x 8 m 0\ntensor v 8 m 0 view x 18446744073709551615", "4:23", "beyond 64 bits"),
        (PAIR + "tensor x 8 m 0", "6:8", "tensor 'x' is declared twice"),
        (PAIR + "step s Relu x -> y", "6:6", "step 's' is declared twice"),
        (PAIR + "step t Relu x y", "6:16", "expected ->"),
        (PAIR + "step t Relu z -> y", "6:13", "no line declares the tensor 'z'"),
        (PAIR + "step t Relu x -> y changes x", "6:28", "the changes of a step must be"),
        (PAIR + "step t Relu x -> y live", "6:20", "unknown word live"),
        (PAIR + "arm", "6:1", "arm without begin"),
        (PAIR + "begin i If x ->", "6:1", "begin without end"),
        (PAIR + "begin i If x -> loop exclusive", "6:22", "cannot be exclusive"),
        (PAIR + "begin i If x ->\nend s ->", "7:5", "got the end of 's'"),
        (PAIR + "begin i If x -> body i/1\narm\nend i ->", "7:1", "body 'i/1' is declared twice"),
        (PAIR + "claim speed m 3", "6:7", "expected a claim"),
        (PAIR + "claim peak m 3\nclaim peak m 3", "7:12", "the claim occurs twice"),
        (PAIR + "buffer b 8 m 0 live 0 1", "3:1", "tensor beside buffer"),
        ("arena m 64\nbuffer b 8 m 0 live 2 1", "3:23", "from 2"),
        ("arena m 64\nbuffer b 8 m 0 0 1", "3:16", "expected live"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_by_line_and_column(body: str, at: str, what: str) -> None:
    """spec: X1.4, X1.2, X2.2, X2.3, X2.4, X2.6, X2.7"""
    with pytest.raises(TmmuError) as refused:
        text.read((HEAD + body).encode(), "p.plan.txt")
    assert (refused.value.file, refused.value.code_id) == (f"p.plan.txt:{at}", "INVALID_PLAN")
    assert what in str(refused.value)


def test_a_text_file_goes_through_the_gate_of_plans(tmp_path: Path) -> None:
    """spec: X1.1, X1.6"""
    path = tmp_path / "anything"
    path.write_text(f"{HEAD}{PAIR}")
    stated = file.load(path)
    assert (stated.plan, stated.is_text) == (read(PAIR), True)
    assert file.find_false_hashes(stated) == []
    file.save(stated.plan, tmp_path / "p.cbor")
    assert file.load(tmp_path / "p.cbor") == replace(stated, is_text=False)
    (tmp_path / "b.plan.txt").write_text("tmmu-plan-text 2\n")
    with pytest.raises(TmmuError, match="tmmu-plan-text 1, got 'tmmu-plan-text 2'; correct it") as refused:
        file.load(tmp_path / "b.plan.txt")
    assert refused.value.file == f"{tmp_path / 'b.plan.txt'}:1:1"


def test_a_plan_that_says_other_than_what_follows_is_refused() -> None:
    """spec: X2.8"""
    plan = plan_memory(text_model("node relu Relu x -> a", "node relu2 Relu a -> y", parameters="w")).plan
    assert read_again(plan).allocation == plan.allocation
    for table, name, row, value, what in (
        ("tensors", "death", 2, 0, "tensors.death row 2 is 0, and 1 follows"),
        ("tensors", "storage", 2, 0, "storages.offset row 2"),
        ("tensors", "flags", 3, IS_OUTPUT, "tensors.flags row 3"),
        ("storages", "bytes", 1, 99, "storages.bytes row 1 is 99, and 64 follows"),
        ("storages", "birth", 3, 0, "storages.birth row 3"),
        ("steps", "part", 0, 1, "begin without end"),
    ):
        rows = getattr(plan.allocation, table)
        values = getattr(rows, name).copy()
        values[row] = value
        with pytest.raises(TmmuError, match=f"a text cannot represent it: {what}") as refused:
            text_writer.write(amend_plan(plan, **{table: replace(rows, **{name: values})}))
        assert refused.value.code_id == "INVALID_PLAN"
    nothing = text.read(f"{HEAD}arena m 9\nbuffer p 4 m 1 live 2 3\n".encode(), "p")
    assert isinstance(nothing, BufferPlan)
    s = nothing.buffers.storages
    empty = Buffers(
        nothing.buffers.arenas, replace(s, **{f.name: getattr(s, f.name)[:0] for f in fields(s)}), (), Names.of([])
    )
    with pytest.raises(TmmuError, match="neither tensors nor buffers"):
        text_writer.write(BufferPlan(empty))
    with pytest.raises(TmmuError, match="dtypes"):
        text_writer.write(amend_plan(plan, dtypes=(*plan.allocation.dtypes, "bool")))


@pytest.mark.parametrize("deep", [MAX_BODY_DEPTH, MAX_BODY_DEPTH + 1])
def test_nodes_with_bodies_nest_only_so_deep(deep: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither as text nor for the gate of all plans. spec: P1.6"""
    begins = "".join(f"begin n{k} If x ->\n" for k in range(deep))
    body = PAIR.replace("step s", f"{begins}step s") + "".join(f"end n{k} ->\n" for k in reversed(range(deep)))
    path = tmp_path / "p.plan.txt"
    path.write_text(HEAD + body)
    if deep == MAX_BODY_DEPTH:
        assert len(file.load(path).plan.allocation.steps) == 2 * deep + 1
    else:
        with pytest.raises(TmmuError, match=r"p\.plan\.txt:69:7: nodes with bodies nest deeper than 64"):
            file.load(path)
        monkeypatch.setattr("tmmu.plans.text.MAX_BODY_DEPTH", deep)
        with pytest.raises(TmmuError, match=f"steps.part row {MAX_BODY_DEPTH}: nodes with bodies nest deeper than 64"):
            file.load(path)


@pytest.mark.parametrize("many", [MAX_EXCLUSIVE_ARMS, MAX_EXCLUSIVE_ARMS + 1])
def test_a_node_has_only_so_many_exclusive_arms(many: int, tmp_path: Path) -> None:
    """What has more is no plan; arms that are not exclusive are not counted. spec: P1.7"""
    exclusive, each = (
        PAIR + f"begin n If x -> {word}\n" + "arm\n".join(f"step n{k} Relu x ->\n" for k in range(many)) + "end n ->\n"
        for word in ("exclusive", "")
    )
    path = tmp_path / "p.plan.txt"
    path.write_text(HEAD + each)
    assert len(file.load(path).plan.allocation.bodies) == 1 + many
    path.write_text(HEAD + exclusive)
    if many == MAX_EXCLUSIVE_ARMS:
        assert len(file.load(path).plan.allocation.bodies) == 1 + many
    else:
        with pytest.raises(TmmuError, match=r"bodies.exclusive: node 'n' has more than 64 exclusive branches"):
            file.load(path)


def test_a_long_name_that_is_unknown_is_compared_with_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """To compare takes time that grows as the square of the name. spec: X1.2"""
    compared: list[int] = []

    def noted(name: str, others: Iterable[str], n: int) -> list[str]:
        compared.extend(map(len, (name, *others)))
        return []

    monkeypatch.setattr(difflib, "get_close_matches", noted)
    for stated, asked, lengths in ((200, 200, [200, 1, 200]), (201, 1, [1, 1]), (1, 201, [])):
        compared.clear()
        lines = f"tensor x 8 a 0\ntensor {'t' * stated} 8 a 8\nstep s Relu {'u' * asked} ->\n"
        with pytest.raises(TmmuError, match="no line declares the tensor"):
            text.read(f"tmmu-plan-text 1\narena a 64\n{lines}".encode(), "p.plan.txt")
        assert compared == lengths
