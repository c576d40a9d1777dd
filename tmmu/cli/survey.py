"""`tmmu survey`: well-known networks planned and proved, in one table: bytes of slots and packed beside live bytes.

Each network is planned in the layouts `slots` and `packed`, each plan written to a file, and each file proved against
its model by what `verify-plan` runs. spec: I2.10, C2.3
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import NamedTuple

import click

from tmmu.core import folders
from tmmu.core.flags import OnceCommand, format_examples
from tmmu.core.output import format_json, print_lines, print_text
from tmmu.core.progress import Doing, progress, report_nothing
from tmmu.core.vocabulary import Model


class Network(NamedTuple):
    """An example, with the sizes and the mode of its plan."""

    example: str
    mode: str
    dims: dict[str, int]


NETWORKS = {
    "chain": Network("chain", "inference", {}),
    "residual": Network("resnet50", "backward", {"batch": 8}),
    "gpt2": Network("gpt2", "backward", {"batch": 8, "seq": 1024}),
    "llama-8b": Network("llama-8b", "backward", {}),
    "llama-70b": Network("llama-70b", "backward", {}),
    "llama-405b": Network("llama-405b", "backward", {}),
    "gpt3-175b": Network("gpt3-175b", "backward", {}),
}
"""The networks, by the names that the command takes."""


@dataclass(frozen=True)
class SurveyRow:
    """One arena of one network; bytes are those of the layouts `slots` and `packed`.

    `verdict` is PROVED where both plans are, against their model and with a slot count that is proved to be minimal.
    """

    network: str
    mode: str
    arena: str
    tensors: int
    storages: int
    slots: int
    max_live: int
    memory_reuse_ratio: float
    storage_reuse_ratio: float
    peak_live_bytes: int
    slots_footprint: int
    packed_footprint: int
    verdict: str


@click.command(
    cls=OnceCommand,
    epilog=format_examples(
        "tmmu survey chain residual",
        "tmmu survey chain --format json",
    ),
)
@click.argument("networks", nargs=-1, metavar="[NETWORK]...", type=click.Choice(list(NETWORKS)))
@click.option("--format", "style", type=click.Choice(["text", "json"]), default="text", show_default=True)
def survey(networks: tuple[str, ...], style: str) -> int:
    """Plan and prove well-known networks.

    Prints the bytes that each arena needs. All networks take about a minute.
    """
    rows = []
    if style == "text":
        print_lines(HEADER)
    asked = networks or tuple(NETWORKS)
    with progress("survey") as doing:
        for number, name in enumerate(asked):
            for row in measure_network(name, partial(doing, done=number, total=len(asked))):
                rows.append(row)
                if style == "text":
                    print_lines(line(row))
    if style == "json":
        print_text(format_json([asdict(row) for row in rows]))
    return 0 if all(row.verdict == "PROVED" for row in rows) else 3


def measure_network(name: str, doing: Doing = report_nothing) -> Iterator[SurveyRow]:
    """The rows of a network, one for each arena that holds anything."""
    from proofs.verify.judge import verify
    from proofs.verify.options import Options
    from proofs.verify.verdict import PROVED
    from tmmu import examples, planner
    from tmmu.core.vocabulary import Bindings
    from tmmu.planner.modes import prepare_graph
    from tmmu.plans import file, metrics
    from tmmu.tasks.models import load

    network = NETWORKS[name]
    doing(f"preparing {name}")
    with tempfile.TemporaryDirectory(dir=folders.temporary_folder()) as folder:
        traced = network.example in examples.traced.DIGESTS
        path = os.path.join(folder, f"model{'.ir.cbor' if traced else '.onnx'}")
        examples.write(network.example, path)
        graph: Model = prepare_graph(load(path, Bindings(network.dims)), network.mode, planner.DEFAULT)
        found, verdict = {}, PROVED
        for layout in ("slots", "packed"):
            doing(f"planning {name}, {layout}")
            plan = planner.plan_memory(graph, options=planner.PlanOptions(mode=network.mode, layout=layout)).plan
            file.save(plan, os.path.join(folder, "plan.cbor"))
            options = Options(model=path, require=("model", "slot-count"))
            doing(f"proving {name}, {layout}")
            latest = verify(os.path.join(folder, "plan.cbor"), options).verdict
            verdict = latest if verdict == PROVED else verdict
            found[layout] = metrics.arena_records(plan)
    for slots, packed in zip(found["slots"], found["packed"], strict=True):
        if slots["tensors"]:
            yield SurveyRow(
                name, network.mode, slots["name"], slots["tensors"], slots["storages"], slots["slots"],
                slots["max_live"], slots["memory_reuse_ratio"], slots["storage_reuse_ratio"], slots["peak_live_bytes"],
                slots["footprint_bytes"], packed["footprint_bytes"], verdict,
            )  # fmt: skip


HEADER = (
    f"{'network':10} {'mode':9} {'arena':11} {'tensors':>7} {'storages':>8} {'slots':>6} {'max live':>8} "
    f"{'reuse':>6} {'peak live':>11} {'slots÷':>7} {'packed÷':>7}  verdict"
)
"""The head of the table; ÷ is footprint ÷ peak live bytes."""


def line(row: SurveyRow) -> str:
    """A row of the table."""
    from tmmu.core.output import format_size
    from tmmu.plans.metrics import ratio

    return (
        f"{row.network:10} {row.mode:9} {row.arena:11} {row.tensors:>7} {row.storages:>8} {row.slots:>6} "
        f"{row.max_live:>8} {row.memory_reuse_ratio:>6.1%} {format_size(row.peak_live_bytes):>11} "
        f"{ratio(row.slots_footprint, row.peak_live_bytes):>7.3f} "
        f"{ratio(row.packed_footprint, row.peak_live_bytes):>7.3f}  {row.verdict}"
    )
