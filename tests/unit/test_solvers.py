"""A solver that crashes, hangs, raises or talks nonsense gives an answer that no proof can be made of.

spec: V4.1, V4.6
"""

from __future__ import annotations

import io
import os
import resource
import signal
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import z3

from proofs.proving.solvers import Answer, child, kept, process, refutation
from proofs.proving.solvers.child import FRAME_LIMIT, read_frame, write_frame
from proofs.proving.solvers.process import CVC5, Z3
from tests.support.commands import program

TRUE, FALSE = refutation("(< 1 2)"), refutation("(< 2 2)")
# A question that Z3 does not answer in a lifetime.
HARD = """(push)(declare-const a (_ BitVec 96))(declare-const b (_ BitVec 96))(declare-const c (_ BitVec 192))
(assert (= ((_ zero_extend 96) a) ((_ zero_extend 96) a)))
(assert (= (bvmul ((_ zero_extend 96) a) ((_ zero_extend 96) b))
           (bvadd (bvmul #x00000000000000000000000000000000ffffffffffffffc5
                         #x00000000000000000000000000000000ffffffffffffffad) (_ bv0 192))))
(assert (bvugt a (_ bv1 96)))(assert (bvugt b (_ bv1 96)))(assert (bvult a b))
(assert (= ((_ extract 95 70) a) (_ bv0 26)))(assert (= ((_ extract 95 70) b) (_ bv0 26)))(check-sat)(pop)"""


@pytest.fixture(scope="module")
def solver() -> Iterator[Z3]:
    with Z3("(define-fun two () Int 2)") as made:
        yield made


def speaking(script: str) -> Z3:
    """A solver whose child is a script instead of Z3; `say` writes a reply frame, `hear` reads a request."""
    head = """
        import os, signal, sys, time
        def say(text):
            body = text.encode(); sys.stdout.buffer.write(len(body).to_bytes(8, "big") + body); sys.stdout.flush()
        def hear():
            return sys.stdin.buffer.read(int.from_bytes(sys.stdin.buffer.read(8), "big"))
    """
    return Z3(command=(sys.executable, "-c", textwrap.dedent(head) + textwrap.dedent(script)))


def test_a_true_claim_is_discharged_and_a_false_one_is_not(solver: Z3) -> None:
    assert solver.evaluate(TRUE, 60).proof
    refused = solver.evaluate(FALSE, 60)
    assert refused.counterexample
    assert not refused.proof


def test_definitions_of_the_prelude_are_known_to_every_child(solver: Z3) -> None:
    assert solver.evaluate(refutation("(= two 2)"), 60).proof
    solver.close()
    assert solver.evaluate(refutation("(= two 2)"), 60).proof


def test_a_closed_solvers_child_serves_the_next_one_which_knows_nothing_of_the_first() -> None:
    """Neither definitions, nor assertions, nor options that belong to a context outlast it. spec: V4.6"""
    kept.end_kept()  # other tests may have left as many children as are kept
    with Z3("(define-fun mine () Int 7)") as first:
        assert (
            first.evaluate("(set-option :produce-models true)(declare-const x Int)(assert false)", 60).failure is None
        )
        pid = first.pid
    with Z3("(define-fun mine () Int 8)") as second:
        assert second.evaluate(refutation("(= mine 8)"), 60).proof
        assert second.pid == pid
        assert second.evaluate("(declare-const x Bool)(assert x)(check-sat)", 60).text == "sat"
        assert second.pid == pid


def test_a_child_that_is_started_ahead_serves_the_first_solver_and_is_one() -> None:
    kept.end_kept()
    for _ in range(2):
        kept.start_ahead("z3")
    (ahead,) = [child.pid for _, child in kept._kept]
    with Z3() as first, Z3() as second:
        assert first.evaluate(TRUE, 60).proof
        assert second.evaluate(TRUE, 60).proof
        assert first.pid == ahead != second.pid


@pytest.mark.parametrize(
    "last",
    [
        lambda made: made.evaluate("(set-option :smt.random_seed 3)", 60),
        lambda made: made.evaluate("(check-sat", 60),
        lambda made: made.evaluate(HARD, 0.2),
        lambda made: os.kill(made.pid, signal.SIGKILL),
    ],
    ids=["an option of the process", "an error", "too late", "killed"],
)
def test_a_child_in_doubt_is_not_kept(last: Callable[[Z3], object]) -> None:
    with Z3() as first:
        assert first.evaluate(TRUE, 60).proof
        pid = first.pid
        last(first)
    with Z3() as second:
        assert second.evaluate(FALSE, 60).counterexample
        assert second.pid != pid


def test_a_forked_process_starts_children_of_its_own() -> None:
    with Z3() as made:
        assert made.evaluate(TRUE, 60).proof
        pid = made.pid
    if (forked := os.fork()) == 0:
        with Z3() as other:
            os._exit(0 if other.evaluate(TRUE, 60).proof and other.pid != pid else 1)
    assert os.waitpid(forked, 0)[1] == 0


def test_the_version_names_the_solver(solver: Z3) -> None:
    assert solver.version.startswith("z3 ")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
def test_a_child_that_dies_by_a_signal_proves_nothing_and_is_replaced(number: signal.Signals) -> None:
    with Z3() as made:
        assert made.evaluate(TRUE, 60).proof
        assert made.pid is not None
        os.kill(made.pid, number)
        answer = made.evaluate(TRUE, 60)
        assert answer.failure == f"the solver died of {number.name}"
        assert not answer.proof
        assert made.evaluate(FALSE, 60).counterexample
        assert made.evaluate(TRUE, 60).proof


def test_a_child_that_dies_while_it_thinks_proves_nothing() -> None:
    with Z3() as made:
        assert made.evaluate(TRUE, 60).proof
        assert made.pid is not None
        killer = threading.Timer(0.2, os.kill, (made.pid, signal.SIGKILL))
        killer.start()
        answer = made.evaluate(HARD, 60)
        killer.join()
        assert answer.failure == "the solver died of SIGKILL"


def test_an_answer_that_comes_too_late_is_none() -> None:
    with Z3() as made:
        answer = made.evaluate(HARD, 0.2)
        assert answer.failure == "the solver gave no answer within 0.2 s"
        assert made.pid is None
        assert made.evaluate(FALSE, 60).counterexample


def test_a_solver_that_stops_at_its_start_is_waited_for_no_longer_than_an_answer(tmp_path: Path) -> None:
    """spec: RE2.5"""
    command = (str(program(tmp_path / "z3", "sleep 60")),)
    answer = Z3(command=command).evaluate(FALSE, 0.3)
    assert answer.failure == "the solver gave no answer within 0.3 s"
    started = Z3(command=command, start_s=0.3)
    assert started.version == ""
    assert started.pid is None


@pytest.mark.parametrize(
    "poison",
    [
        "(assert (",
        "(assert false)(asser true)",
        "(push)(assert false)(check-sat",
        "(assert (< 1 nobody))",
        "(pop)",
        ")",
    ],
)
def test_a_context_that_raised_is_never_asked_again(poison: str) -> None:
    with Z3() as made:
        answer = made.evaluate(poison, 60)
        assert answer.failure
        assert not answer.proof
        assert made.evaluate(FALSE, 60).counterexample


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("say('=mad'); hear(); say('='); hear(); say('unsat')", "raised"),
        ("say('=mad'); hear(); say('='); hear(); say('=(error \"line 1\")')", "reports"),
        ("say('=mad'); hear(); say('='); hear(); say('=unsat\\nsat\\nunsupported')", "reports"),
        ("say('=mad'); hear(); say('='); hear(); sys.exit(3)", "ended with exit code 3"),
        ("say('=mad'); hear(); say('='); hear(); os.write(1, b'unsat'); os.close(1); time.sleep(60)", "not a frame"),
        ("say('=mad'); hear(); say('='); hear(); os.write(1, b'\\xff' * 8); time.sleep(60)", "not a frame"),
        ("say('=mad'); hear(); say('=two is two')", "answers the definitions with 'two is two'"),
        ("say('!no memory')", "no memory"),
        ("sys.exit(1)", "ended with exit code 1"),
        ("sys.exit(0)", "ended with exit code 0"),
        ("os.kill(os.getpid(), signal.SIGUSR1)", "died of SIGUSR1"),
        ("os.kill(os.getpid(), signal.SIGRTMIN + 3)", "died of signal"),
    ],
)
def test_a_child_that_talks_nonsense_proves_nothing(script: str, reason: str) -> None:
    with speaking(script) as made:
        answer = made.evaluate(TRUE, 60)
        assert reason in (answer.failure or "")
        assert not answer.proof
        assert not answer.counterexample


def test_what_a_reply_says_counts_only_where_nothing_went_wrong() -> None:
    for reply, expected in (
        ("=unsat\nsat\n", ("unsat\nsat", None)),
        ("!unsat\nsat", ("", "the solver raised: unsat\nsat")),
        ("unsat\nsat", ("", "the solver raised: nsat\nsat")),
        ('=(error "line 1")', ("", 'the solver reports (error "line 1")')),
        ("=unsat\nsat\nunsupported", ("", "the solver reports unsat\nsat\nunsupported")),
    ):
        assert process._judge(reply) == expected


def test_an_answer_that_comes_as_its_time_runs_out_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its child is ended at that moment, and could not be asked again."""

    class Late(threading.Timer):
        """Runs out while it is cancelled."""

        def start(self) -> None:
            pass

        def join(self, timeout: float | None = None) -> None:
            self.function()

    with speaking("say('=mad'); hear(); say('='); hear(); say('=unsat\\nsat')") as made:
        assert made.version == "mad"
        monkeypatch.setattr(threading, "Timer", Late)
        assert made.evaluate(TRUE, 7).failure == "the solver gave no answer within 7 s"
        assert made.pid is None


def test_a_child_is_ended_without_being_asked_and_does_nothing_more(tmp_path: Path) -> None:
    made = speaking(f"say('=mad'); hear(); say('='); hear(); open({str(tmp_path / 'more')!r}, 'w')")
    assert made.version == "mad"
    assert made.pid is not None
    made.end()
    assert made.pid is None
    assert list(tmp_path.iterdir()) == []


def test_a_child_that_does_not_take_the_definitions_is_not_kept() -> None:
    made = speaking("say('=mad'); hear(); say('=two is two'); time.sleep(60)")
    assert made.version == "mad"
    assert made.pid is None


def test_an_answer_says_how_long_it_took() -> None:
    with speaking("say('=mad'); hear(); say('='); hear(); say('=unsat\\nsat')") as made:
        began = time.perf_counter()
        answer = made.evaluate(TRUE, 60)
        assert 0 < answer.seconds <= time.perf_counter() - began


# cvc5, which is given its definitions with each question.

SIZES = """
(declare-datatypes ((L 0)) (((nil) (cell (head Int) (tail L)))))
(define-fun-rec size ((l L)) Int (ite ((_ is nil) l) 0 (+ 1 (size (tail l)))))
"""


ECHO = """
say("=mad"); first = hear(); say("=")
while text := hear():
    say(f"={first.decode()}|{text.decode()}")
"""


def echoing(prelude: str) -> CVC5:
    """A solver whose child answers with what it was told first and what it is asked."""
    return CVC5(prelude, speaking(ECHO)._command)


def test_definitions_are_kept_and_given_with_the_questions_that_need_them() -> None:
    """spec: V4.10"""
    with echoing("(set-option :seed 7)") as made:
        assert made.evaluate(SIZES, 60) == Answer("", None, 0.0)
        plain = made.evaluate(refutation("(= 2 (size (cell 5 (cell 6 nil))))"), 60).text
        option, asked = plain.split("|")
        assert option == "(set-option :seed 7)"
        assert asked.startswith("(push)(declare-datatypes ((L 0))")
        assert "define-fun-rec" not in asked
        assert asked.endswith("(assert (not (and true (= 2 (+ 1 (+ 1 0))))))(check-sat)(pop)(check-sat)")
        assert made.evaluate("(define-fun two () Int 2)", 60) == Answer("", None, 0.0)
        for _ in range(2):
            asked = made.evaluate(refutation("(= two (size (cell 5 (cell 6 nil))))"), 60).text
            assert "(define-fun two () Int 2)" in asked
    with echoing(SIZES) as made:
        option, asked = made.evaluate(refutation("(= 2 (size l))"), 60).text.split("|")
        assert option == ""
        assert "(define-fun-rec size" in asked


@pytest.mark.parametrize("text", ["(push)(define-fun two () Int 2)", "(define-fun two () Int 2)(pop)(check-sat)"])
def test_what_is_no_refutation_is_kept_and_answered_with_nothing(text: str) -> None:
    made = echoing("")
    assert made.evaluate(text, 60) == Answer("", None, 0.0)
    assert made.pid is None


def test_a_solver_that_is_not_there_has_no_version_and_proves_nothing() -> None:
    made = Z3(command=("/nowhere/z3",))
    assert made.version == ""
    assert "cannot be started" in (made.evaluate(TRUE, 1).failure or "")


@pytest.mark.parametrize(
    "text", ["unsat", "sat\nsat", "unsat\nunsat", "unsat\nsat\nsat", "unknown\nsat", "", "unsat sat"]
)
def test_only_the_exact_answer_with_its_canary_is_a_proof(text: str) -> None:
    assert not Answer(text, None, 0.0).proof
    assert Answer("unsat\nsat", None, 0.0).proof
    assert not Answer("unsat\nsat", "died afterwards", 0.0).proof


@pytest.mark.parametrize("text", ["sat", "unsat\nsat", "sat\nunsat", "sat\nsat\nsat", "unknown\nsat", "", "sat sat"])
def test_only_a_model_with_a_living_canary_is_a_counterexample(text: str) -> None:
    assert not Answer(text, None, 0.0).counterexample
    assert Answer("sat\nsat", None, 0.0).counterexample
    assert not Answer("sat\nsat", "died afterwards", 0.0).counterexample


def test_a_frame_that_is_cut_short_or_too_long_is_no_frame() -> None:
    assert read_frame(io.BytesIO(b"\0" * 7 + b"\3abc")) == b"abc"
    assert read_frame(io.BytesIO(b"\0" * 7 + b"\4abc")) is None
    assert read_frame(io.BytesIO(b"\0" * 3)) is None
    assert read_frame(io.BytesIO((FRAME_LIMIT + 1).to_bytes(8, "big") + b"abc")) is None


def test_a_frame_has_at_most_a_quarter_of_a_gibibyte() -> None:
    class Stream(io.BytesIO):
        """Says a length, and gives so many bytes."""

        def __init__(self, length: int) -> None:
            super().__init__(length.to_bytes(8, "big"))

        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(size) or bytes(size or 0)

    assert len(read_frame(Stream(256 << 20)) or b"") == 256 << 20
    assert read_frame(Stream((256 << 20) + 1)) is None


def served(requests: list[str], name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[list[bytes], bytes]:
    """What `main` replies to requests on its standard streams, and what it prints as an error."""
    paths = [folder / part for part in ("asked", "said", "errors")]
    with paths[0].open("wb") as asked:
        for text in requests:
            write_frame(asked, text.encode())
    kept = [os.dup(number) for number in range(3)]
    with (
        paths[0].open("rb") as asked,
        paths[1].open("wb") as said,
        paths[2].open("wb") as errors,
        io.TextIOWrapper(asked) as stdin,
    ):
        monkeypatch.setattr(sys, "stdin", stdin)
        monkeypatch.setattr(sys, "argv", ["child.py", name])
        try:
            for number, stream in enumerate((asked, said, errors)):
                os.dup2(stream.fileno(), number)
            child.main()
        finally:
            for number, old in enumerate(kept):
                os.dup2(old, number)
                os.close(old)
    with paths[1].open("rb") as said_again:
        return list(iter(partial(read_frame, said_again), None)), paths[2].read_bytes()


@pytest.mark.parametrize("name", ["z3", "cvc5"])
def test_a_child_says_who_it_is_and_answers_until_requests_end_or_one_raises(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within two gibibytes, as Z3 counts them, and cvc5 within four of addresses. spec: V4.6, V4.10"""
    limits: list[tuple[object, ...]] = []
    monkeypatch.setattr(z3, "set_param", lambda *given: limits.append(given))
    monkeypatch.setattr(resource, "setrlimit", lambda *given: limits.append(given))
    (who, *answers, last), errors = served([TRUE, FALSE, "(assert (", TRUE], name, tmp_path, monkeypatch)
    assert who.startswith(f"={name} ".encode())
    assert answers == [b"=unsat\nsat\n", b"=sat\nsat\n"]
    assert last.startswith(b"!")
    assert errors == b""
    assert limits == [("memory_max_size", 2048) if name == "z3" else (resource.RLIMIT_AS, (4 << 30, 4 << 30))]


def test_what_a_solver_prints_by_itself_comes_between_no_frames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def evaluate(text: str) -> str:
        os.write(1, b"a warning\n")
        return text

    monkeypatch.setitem(child.SOLVERS, "loud", lambda: ("loud 1", evaluate))
    found = served(["x", "y"], "loud", tmp_path, monkeypatch)
    assert found == ([b"=loud 1", b"=x", b"=y"], b"a warning\n" * 2)
