"""The strategies of sharding reach every collective, stages, padding and every stage of ZeRO, again and again."""

from __future__ import annotations

from collections import Counter

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.support.meshes import Example, examples, specs, trained
from tmmu.core.errors import TmmuError
from tmmu.planner.sharding import build_local_models, build_shards
from tmmu.plans import sharding

FIXED = settings(
    derandomize=True, database=None, phases=[Phase.generate], deadline=None, max_examples=600,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
OFTEN = 5


def test_every_collective_and_padding_occur_often() -> None:
    seen: Counter[str] = Counter()

    @FIXED
    @given(st.data(), st.one_of(examples(), trained()))
    def count(data: st.DataObject, example: Example) -> None:
        spec = data.draw(specs(example.model))
        try:
            locals_ = build_local_models(example.model, spec)
        except TmmuError as error:
            seen[error.code_id] += 1
            return
        kinds = {node.op.partition(".")[0] for local in locals_ for node in local.model.nodes
                 if node.domain.startswith("tmmu.mesh/")}  # fmt: skip
        table = build_shards(locals_[-1], spec, sharding.count_ranks(spec) - 1)
        seen.update(kinds | {f"ZeRO {spec['zero_stage']}", f"{len(locals_)} stages"})
        seen["padding"] += bool((table.held < table.chunk).any())
        seen["nothing to do"] += not kinds

    count()
    wanted = {"AllReduce", "AllGather", "ReduceScatter", "Shard", "Send", "Recv", "padding", "nothing to do"}
    wanted |= {"1 stages", "2 stages", "3 stages", *(f"ZeRO {stage}" for stage in range(4))}
    assert {what for what in wanted if seen[what] < OFTEN} == set(), seen
    assert seen["INVALID_SHARDING"] < 300
