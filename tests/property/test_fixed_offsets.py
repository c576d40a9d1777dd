"""Whatever is fixed of a random model, its plan is right and has it there, or it is refused.

spec: A10.1, A10.2, A10.3, A10.5, A10.7
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from proofs.readers.models.ir import read_ir
from proofs.sharding.stages import RankModel
from proofs.verify.checks import Subject, violations
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Model
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans import file
from tmmu.plans.sections import Plan
from tmmu.testing.strategies.models import models

REFUSALS = ("ADDRESS_COLLISION", "INVALID_BINDING", "ALIGNMENT_VIOLATION")


def planned(model: Model, fixed: dict[str, int]) -> Plan:
    """The plan, which is right, states what was fixed and has it there."""
    made = plan_memory(model, options=PlanOptions(layout="packed", fixed=fixed)).plan
    stated = file.decode(file.encode(made))
    against, donated = RankModel(read_ir(model), {}), frozenset(model.bindings.donated)
    assert [found.text for found in violations(Subject(stated, against, donated, asked=fixed))] == []
    assert made.origin.fixed == fixed
    return made


def addresses(made: Plan) -> dict[str, int]:
    return dict(zip(made.allocation.tensors.name, made.allocation.addresses().tolist(), strict=True))


@given(models(), st.data())
def test_a_tensor_lies_where_it_is_fixed_or_the_plan_is_refused(model: Model, data: st.DataObject) -> None:
    names = st.sampled_from([*(tensor.name for tensor in model.tensors), "a name that no tensor has"])
    fixed = data.draw(st.dictionaries(names, st.integers(0, 12).map(lambda k: 64 * k), min_size=1, max_size=4))
    refused = ""
    try:
        planned(model, fixed)
    except TmmuError as error:
        refused = error.code_id
    assert refused in ("", *REFUSALS)


@given(models())
def test_a_plan_whose_tensors_are_all_fixed_where_another_has_them_is_that_one(model: Model) -> None:
    """None of the fixed offsets excludes another then, and nothing is left to be placed."""
    free = plan_memory(model, options=PlanOptions(layout="packed")).plan
    model_names = {tensor.name for tensor in model.tensors}
    fixed = {name: at for name, at in addresses(free).items() if name in model_names}
    assert addresses(planned(model, fixed)).items() >= fixed.items()
