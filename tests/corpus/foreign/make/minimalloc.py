"""Write the CSV files of the corpus: `python -m tests.corpus.foreign.make.minimalloc [DIR]`.

Each is what its name says. DIR has MiniMalloc's challenging sets (A.1048576.csv, …): our solution of each is written
with the lifetimes of the set, in the layout packed, which needs up to a quarter more than the capacity in their names.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

from tests.benchmarks import sets
from tmmu.planner import PlanOptions, plan_memory

CORPUS = Path(__file__).resolve().parents[1]
PROVED = {
    # b begins where a ends: lifetimes are half-open.
    "touching": "id,lower,upper,size,offset\na,0,3,4,0\nb,3,5,4,0\n",
    # The same with an inclusive end, other names of columns and another order of them.
    "inclusive": "size,buffer,begin,end,offset\n4,a,0,2,0\n4,b,3,4,0\n",
    # a gives up all of its bytes in steps 3 and 4, and all but its first 8 in steps 7 and 8.
    "gaps": "id,lower,upper,size,gaps,alignment,hint,offset\n"
    "a,0,10,16,3-5 7-9@0:8,16,-1,0\nb,3,5,16,,8,0,0\nc,7,9,8,,8,3,8\n",
}
REFUTED = {
    "overlap": "id,lower,upper,size,offset\na,0,4,4,0\nb,3,5,4,0\n",
    "inclusive-overlap": "size,buffer,begin,end,offset\n4,a,0,3,0\n4,b,3,4,0\n",
    # MiniMalloc 9f5cf81 --validate prints PASS of both.
    "zero-length-gap": "id,lower,upper,size,gaps,offset\na,0,10,4,2-2,0\nb,5,8,4,,0\n",
    "inverted-gap": "id,lower,upper,size,gaps,offset\na,0,10,4,8-3,0\nb,5,8,4,,0\n",
    "window-overlap": "id,lower,upper,size,gaps,offset\na,0,10,16,3-5@0:8,0\nb,3,5,16,,0\n",
    "misaligned": "id,lower,upper,size,alignment,offset\na,0,3,4,8,4\n",
}


def solution(path: Path) -> str:
    """The set at `path` with an offset for each buffer."""
    plan = plan_memory(sets.model(path.stem, sets.read(path)), sets.BUFFERS, PlanOptions(layout="packed")).plan
    offsets = dict(zip(plan.allocation.tensors.name, plan.allocation.addresses().tolist(), strict=True))
    with open(path, newline="") as lines:
        rows = list(csv.DictReader(lines))
    listed = (f"{r['id']},{r['lower']},{r['upper']},{r['size']},{offsets['b' + r['id']]}" for r in rows)
    return "\n".join(("id,lower,upper,size,offset", *listed, ""))


if __name__ == "__main__":
    for path in sorted(Path(sys.argv[1]).glob("[A-F].*.csv")) if len(sys.argv) > 1 else ():
        (CORPUS / "proved" / f"minimalloc-{path.name[0]}.csv").write_text(solution(path))
    for folder, files in (("proved", PROVED), ("refuted", REFUTED)):
        for name, text in files.items():
            (CORPUS / folder / f"minimalloc-{name}.csv").write_text(text)
