"""The catalogue of faults injects into plans as they are now: each code has a place in some of them."""

from __future__ import annotations

from tests.nightly.soak import plans
from tests.nightly.soak.cases import case
from tmmu.testing.catalogue import CODES

CASES = {"plain": 3, "bodies": 2, "envelopes": 4, "training": 1, "ranks": 3}
"""In so many cases of each kind every code has a place."""


def test_every_code_has_a_fault_that_changes_what_is_given_to_the_verifier() -> None:
    """The soak itself runs at night; that a format changed under the catalogue shows here. spec: C2.5"""
    reached = set()
    for kind, count in CASES.items():
        for right in filter(None, (case(kind, number) for number in range(count))):
            for fault in (fault for code in plans.KINDS[kind] for fault in plans.faults_of(code)):
                given = fault.at(right, 0)
                if given is not None:
                    reached.add(fault.code)
                    same = given.data in (right.plan_files, right.plan_files[:1])
                    assert not same or given.donated is not None or given.model is not None, fault.title
    assert reached == set(CODES)


def test_a_place_is_known_by_its_number() -> None:
    right = case("plain", 0)
    assert right is not None
    [fault] = (fault for fault in plans.faults_of("alignment") if fault.name == "misplaced")
    found = {number: fault.at(right, number) for number in range(8)}
    assert found == {number: fault.at(right, number) for number in range(8)}
    assert len(set(found.values())) > 1
