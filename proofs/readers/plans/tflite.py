"""TensorFlow Lite models with an offline plan.

The metadata `OfflineMemoryAllocation` has an offset for each tensor of all subgraphs, or -1 if the runtime is to choose
it. Accesses follow from the operators in their order. The runtime is TensorFlow Lite Micro's. An If copies its operands
to the inputs of one of its subgraphs, and the outputs of that to its results. A While copies between its results and
the inputs of its body and its condition. A subgraph that is called twice is stated twice, in the same bytes. Variables
are state.

The plan is that of subgraph 0. The subgraphs that no operator calls may also be read as programs of a set
(`read_programs`).
spec: FP1.15, FP1.16, FP6.1 to FP6.9, FP6.13, FP6.14, FP6.17, FP6.18, FP6.20
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from proofs.readers.plans.foreign_plan import ForeignPlan, FreshNames, elements_of, name_program
from tmmu.core.dtypes import element_alignment, nbytes
from tmmu.core.flatbuffer import Flatbuffer, TableAt
from tmmu.core.output import list_names
from tmmu.core.source import Source
from tmmu.core.vocabulary import UINT64_END, Role, Shares
from tmmu.plans.allocation import Arena
from tmmu.plans.building import AllocationBuilder, StatedTensor
from tmmu.plans.columns import IS_INPUT, IS_OUTPUT, IS_RETURNED
from tmmu.plans.reading import ACCESSES_WORKED_OUT, Reading, UndecidedConstruct
from tmmu.plans.sections import Plan

IDENTIFIER = b"TFL3"
METADATA = "OfflineMemoryAllocation"
STALE = "plan the model again after it is changed (Vela keeps a list that it reads: give it a model without a plan)"
VERSIONS = (0, 1)
HEADER = 3
"""Words before the offsets: a version, the number of subgraphs (not read), and the number of offsets."""
RUNTIME = OPEN = -1
"""The offset of a tensor that the runtime places, and the size of an open dimension in a signature."""
DOMAIN = "tflite"
TYPES = {
    0: "float32", 1: "float16", 2: "int32", 3: "uint8", 4: "int64", 6: "bool", 7: "int16", 8: "complex64", 9: "int8",
    10: "float64", 11: "complex128", 12: "uint64", 15: "uint32", 16: "uint16", 17: "int8", 18: "bfloat16",
}  # fmt: skip
"""The element types that have a size in TensorFlow Lite Micro. It unpacks elements of 4 bits to a byte each."""
_OPERATORS = """
ADD AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE EMBEDDING_LOOKUP FLOOR
FULLY_CONNECTED HASHTABLE_LOOKUP L2_NORMALIZATION L2_POOL_2D LOCAL_RESPONSE_NORMALIZATION LOGISTIC LSH_PROJECTION
LSTM MAX_POOL_2D MUL RELU RELU_N1_TO_1 RELU6 RESHAPE RESIZE_BILINEAR RNN SOFTMAX SPACE_TO_DEPTH SVDF TANH
CONCAT_EMBEDDINGS SKIP_GRAM CALL CUSTOM EMBEDDING_LOOKUP_SPARSE PAD UNIDIRECTIONAL_SEQUENCE_RNN GATHER
BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND TRANSPOSE MEAN SUB DIV SQUEEZE UNIDIRECTIONAL_SEQUENCE_LSTM STRIDED_SLICE
BIDIRECTIONAL_SEQUENCE_RNN EXP TOPK_V2 SPLIT LOG_SOFTMAX DELEGATE BIDIRECTIONAL_SEQUENCE_LSTM CAST PRELU MAXIMUM
ARG_MAX MINIMUM LESS NEG PADV2 GREATER GREATER_EQUAL LESS_EQUAL SELECT SLICE SIN TRANSPOSE_CONV SPARSE_TO_DENSE TILE
EXPAND_DIMS EQUAL NOT_EQUAL LOG SUM SQRT RSQRT SHAPE POW ARG_MIN FAKE_QUANT REDUCE_PROD REDUCE_MAX PACK LOGICAL_OR
ONE_HOT LOGICAL_AND LOGICAL_NOT UNPACK REDUCE_MIN FLOOR_DIV REDUCE_ANY SQUARE ZEROS_LIKE FILL FLOOR_MOD RANGE
RESIZE_NEAREST_NEIGHBOR LEAKY_RELU SQUARED_DIFFERENCE MIRROR_PAD ABS SPLIT_V UNIQUE CEIL REVERSE_V2 ADD_N GATHER_ND
COS WHERE RANK ELU REVERSE_SEQUENCE MATRIX_DIAG QUANTIZE MATRIX_SET_DIAG ROUND HARD_SWISH IF WHILE
NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 SCATTER_ND SELECT_V2 DENSIFY SEGMENT_SUM BATCH_MATMUL
PLACEHOLDER_FOR_GREATER_OP_CODES CUMSUM CALL_ONCE BROADCAST_TO RFFT2D CONV_3D IMAG REAL COMPLEX_ABS HASHTABLE
HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE REDUCE_ALL CONV_3D_TRANSPOSE VAR_HANDLE READ_VARIABLE ASSIGN_VARIABLE
BROADCAST_ARGS RANDOM_STANDARD_NORMAL BUCKETIZE RANDOM_UNIFORM MULTINOMIAL GELU DYNAMIC_UPDATE_SLICE RELU_0_TO_1
UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_SUM ATAN2 UNSORTED_SEGMENT_MIN SIGN BITCAST BITWISE_XOR
RIGHT_SHIFT STABLEHLO_LOGISTIC STABLEHLO_ADD STABLEHLO_DIVIDE STABLEHLO_MULTIPLY STABLEHLO_MAXIMUM STABLEHLO_RESHAPE
STABLEHLO_CLAMP STABLEHLO_CONCATENATE STABLEHLO_BROADCAST_IN_DIM STABLEHLO_CONVOLUTION STABLEHLO_SLICE
STABLEHLO_CUSTOM_CALL STABLEHLO_REDUCE STABLEHLO_ABS STABLEHLO_AND STABLEHLO_COSINE STABLEHLO_EXPONENTIAL
STABLEHLO_FLOOR STABLEHLO_LOG STABLEHLO_MINIMUM STABLEHLO_NEGATE STABLEHLO_OR STABLEHLO_POWER STABLEHLO_REMAINDER
STABLEHLO_RSQRT STABLEHLO_SELECT STABLEHLO_SUBTRACT STABLEHLO_TANH STABLEHLO_SCATTER STABLEHLO_COMPARE
STABLEHLO_CONVERT STABLEHLO_DYNAMIC_SLICE STABLEHLO_DYNAMIC_UPDATE_SLICE STABLEHLO_PAD STABLEHLO_IOTA
STABLEHLO_DOT_GENERAL STABLEHLO_REDUCE_WINDOW STABLEHLO_SORT STABLEHLO_WHILE STABLEHLO_GATHER STABLEHLO_TRANSPOSE
DILATE STABLEHLO_RNG_BIT_GENERATOR REDUCE_WINDOW STABLEHLO_COMPOSITE STABLEHLO_SHIFT_LEFT STABLEHLO_CBRT
"""
OPERATORS = tuple(_OPERATORS.split())
"""The operators of the schema by their codes."""
IF, WHILE, CALL_ONCE, CUSTOM = (OPERATORS.index(name) for name in ("IF", "WHILE", "CALL_ONCE", "CUSTOM"))
OPTIONS = {IF: 92, WHILE: 93, CALL_ONCE: 103}
"""The kinds of options of the operators that name subgraphs; a file may have 0 instead."""
UNKNOWN = frozenset((
    "CALL", "DELEGATE", "PLACEHOLDER_FOR_GREATER_OP_CODES", "STABLEHLO_CUSTOM_CALL", "STABLEHLO_REDUCE",
    "STABLEHLO_SCATTER", "STABLEHLO_REDUCE_WINDOW", "STABLEHLO_SORT", "STABLEHLO_WHILE", "STABLEHLO_COMPOSITE",
))  # fmt: skip
"""Operators that run code which the reader does not follow."""
MODEL, CODE, SUBGRAPH, TENSOR, OPERATOR, BUFFER, ENTRY, SIGNATURE = 8, 4, 6, 10, 14, 3, 2, 5
"""The numbers of fields that the tables of the schema have."""
VIEWS = frozenset(("RESHAPE", "SQUEEZE", "EXPAND_DIMS"))
"""Operators whose result shows operand 0 if it is in the same bytes: no byte is copied then."""
_IN_PLACE = """
ABS ADD CEIL COS DIV ELU EXP FLOOR GELU HARD_SWISH LEAKY_RELU LOG LOGICAL_AND LOGICAL_NOT LOGICAL_OR LOGISTIC MAXIMUM
MINIMUM MUL NEG POW PRELU QUANTIZE RELU RELU6 RELU_0_TO_1 RELU_N1_TO_1 ROUND RSQRT SIGN SIN SQRT SQUARE
SQUARED_DIFFERENCE SUB TANH
"""
IN_PLACE = frozenset(_IN_PLACE.split())
"""Operators whose result may take an operand's bytes: each element is computed from those at the same index."""
UPDATES = frozenset(("DYNAMIC_UPDATE_SLICE",))
"""Operators whose result may take the bytes of operand 0: it differs only in the elements that they write."""
ETHOS_U, SCRATCH = "ethos-u", (2, 3)
"""The custom operator of Arm's NPU, and the numbers of its scratch operands, which hold the others by design."""
ASSUMED = "an ethos-u operator has read an operand when it writes a result over it"


class StoredTensor(NamedTuple):
    """A tensor of a subgraph: `offset` is None if the plan has no place for it, for the reason `why`."""

    name: str
    dtype: str
    bytes: int
    offset: int | None
    is_variable: bool
    why: str = ""


class StoredOperator(NamedTuple):
    """An operator: its name, code, operands and results (-1: left out), intermediates, and its options."""

    op: str
    code: int
    reads: list[int]
    writes: list[int]
    intermediates: list[int]
    options: TableAt | None


class StoredSubgraph(NamedTuple):
    """A subgraph: its tensors, inputs, outputs and operators."""

    tensors: list[StoredTensor]
    inputs: list[int]
    outputs: list[int]
    nodes: list[StoredOperator]


def read(source: Source) -> ForeignPlan:
    """Return the offline plan. Raises INVALID_PLAN with the byte, tensor or operator. O(file + subgraph calls)."""
    return _Reading(source).plan()


def read_programs(source: Source) -> dict[str, ForeignPlan]:
    """Return the plan of each subgraph that no operator calls and that has a place for a tensor, by its name.

    Raises as `read`. O(file + subgraph calls). spec: FP6.20
    """
    reading, names, programs = _Reading(source, has_programs=True), FreshNames(), dict[str, ForeignPlan]()
    for g in reading.entries():
        if any(tensor.offset is not None for k in reading.reached(g) for tensor in reading.graphs[k].tensors):
            programs[names(name_program(reading.titles[g]))] = reading.plan(g)
    return programs or {"": reading.plan()}


def graphs_of(source: Source) -> list[StoredSubgraph]:
    """Return the subgraphs of a model, as the plan is made from them. Raises as `read`."""
    return _Reading(source).graphs


class _Reading:
    def __init__(self, source: Source, *, has_programs: bool = False) -> None:
        self.source, self.has_programs = source, has_programs
        if source.data[4:8] != IDENTIFIER:
            raise source.refuse(
                f"expected the identifier {IDENTIFIER.decode()} of a model", "byte 4", "make the model again"
            )
        model = Flatbuffer(source).root()
        model.check_known(MODEL, "the model")
        self.buffers = model.tables(4)
        for k, buffer in enumerate(self.buffers):
            buffer.check_known(BUFFER, f"buffer {k}")
        self.outside: dict[str, str] = {}
        self.undecided: dict[UndecidedConstruct, None] = {}
        codes = [self._code(table) for table in model.tables(1)]
        tables = model.tables(2)
        counts = [len(table.tables(0)) for table in tables]
        self.offsets = self._offsets(model, sum(counts))
        if not tables:
            raise source.refuse("it has no subgraph", METADATA)
        self.graphs, at = list[StoredSubgraph](), 0
        if not has_programs:
            self._check_open(tables[:1])
        for table, count in zip(tables, counts, strict=True):
            self.graphs.append(self._subgraph(table, self.offsets[at : at + count], codes, len(self.graphs)))
            at += count
        if has_programs:
            self._check_open([tables[g] for g in self.entries()])
            self.titles = self._titles(model)
        self.of_file = dict(self.outside)

    def _begin(self, root: int) -> None:
        """Begin the plan of a subgraph."""
        self.building, self.root = AllocationBuilder(), root
        self.outside = dict(self.of_file)
        self.names, self.steps = FreshNames(), FreshNames()
        self.rows: dict[tuple[str, int, int], int] = {}
        self.written: set[int] = set()
        self.donated: dict[str, None] = {}
        self.state: dict[str, bool] = {}
        given = (f"{name} is {size}" for name, size in self.open_dims.items())
        self.assumed = dict.fromkeys(f"the open dimension {each}, as in the file" for each in given)
        self.called = {root}

    def entries(self) -> list[int]:
        """Return the main subgraph, and those that no operator calls."""
        called = {g for k in range(len(self.graphs)) for g in self._callees(k)}
        return [g for g in range(len(self.graphs)) if g == 0 or g not in called]

    def reached(self, root: int) -> set[int]:
        """Return a subgraph, and those that it calls, directly or not. O(operators)."""
        found, open_ = {root}, [root]
        while open_:
            new = self._callees(open_.pop()).difference(found)
            found |= new
            open_ += new
        return found

    def _callees(self, g: int) -> set[int]:
        """Return the subgraphs that the operators of one call."""
        nodes = self.graphs[g].nodes
        self.source.count_work(len(nodes))
        fields = {IF: (0, 1), WHILE: (0, 1), CALL_ONCE: (0,)}
        return {
            self.callee(node, field, f"{n} {node.op}")
            for n, node in enumerate(nodes)
            for field in fields.get(node.code, ())
        }

    def plan(self, root: int = 0) -> ForeignPlan:
        """Return the plan of a subgraph, by default of the main one, and of the subgraphs that it calls."""
        self._begin(root)
        limit = self.source.capacity
        self.building.arenas.append(Arena("arena") if limit is None else Arena("arena", limit))
        main = self.graphs[root]
        for t in dict.fromkeys(main.inputs):
            self.given(root, t, Role.INPUT, IS_INPUT)
        for g in sorted(self.reached(root)) if self.has_programs else range(len(self.graphs)):
            for t, tensor in enumerate(self.graphs[g].tensors):
                if tensor.is_variable:
                    self.given(g, t, Role.PARAMETER, IS_RETURNED)
                    self.state |= {self.building.tensors[row].name: True for row in self.of("", g, [t])}
        if not {t for node in main.nodes for t in node.reads}.issuperset({*main.inputs} - {*main.outputs}):
            # Such an input must be whole when the model begins, even if nothing needs it after that. spec: FP6.14
            self.step("inputs", "inputs", self.of("", root, main.inputs), ())
        self.subgraph("", root, 1)
        for row in self.of("", root, main.outputs):
            held = self.building.tensors[row]
            self.building.tensors[row] = held._replace(flags=held.flags | IS_OUTPUT | IS_RETURNED)
        for g in range(len(self.graphs)):
            if g not in self.called and not self.has_programs:
                self.outside[f"subgraph {g}"] = "no operator calls it"
        if not self.building.tensors:
            raise self.source.refuse("all tensors are left to the runtime", METADATA, "plan the model offline")
        if self.source.capacity is None:
            self.outside["capacity of the arena"] = "the file states none, and --capacity is not given"
        reading = Reading(
            "TensorFlow Lite offline plan", ACCESSES_WORKED_OUT, tuple(self.assumed), self.outside, (),
            tuple(self.donated), undecided=tuple(self.undecided), state=self.state,
        )  # fmt: skip
        return ForeignPlan(Plan(self.building.allocation()), reading)

    # The file

    def _offsets(self, model: TableAt, tensors: int) -> list[int]:
        """Return the offsets of all tensors, from the last list as the runtime does; all must fit. spec: FP6.1"""
        found: list[int] | None = None
        for entry in model.tables(6):
            entry.check_known(ENTRY, "metadata")
            if entry.text(0) == METADATA:
                number = entry.number(1, "u32")
                if number >= len(self.buffers):
                    raise self.source.refuse(f"buffer {number} is none of {len(self.buffers)}", METADATA)
                at, size = self.buffers[number].content(0)
                words = size // 4
                read = [self.buffers[number].of.number("i32", at + 4 * k) for k in range(words)]
                if size % 4 or words < HEADER or words != HEADER + read[HEADER - 1]:
                    stated = read[HEADER - 1] if words >= HEADER else "no number of"
                    raise self.source.refuse(f"{words} words state {stated} offsets after {HEADER} words", METADATA)
                if read[0] not in VERSIONS:
                    raise self.source.refuse(f"version {read[0]} of a plan, expected one of {VERSIONS}", METADATA)
                found = read[HEADER:]
                if min(found, default=0) < RUNTIME:
                    raise self.source.refuse(f"an offset below {RUNTIME}", METADATA)
                if len(found) != tensors:
                    text = f"{len(found)} offsets for {tensors} tensors of all subgraphs"
                    raise self.source.refuse(text, METADATA, STALE)
        if found is None:
            raise self.source.refuse(f"no metadata {METADATA}", None, "plan it offline: tmmu export tflite does it")
        return found

    def _code(self, table: TableAt) -> tuple[int, str]:
        table.check_known(CODE, "operator codes")
        code = max(table.number(0, "i8"), table.number(3, "i32"))
        name = OPERATORS[code] if 0 <= code < len(OPERATORS) else f"operator {code}"
        return code, (table.text(1) or name) if code == CUSTOM else name

    def _subgraph(self, table: TableAt, offsets: list[int], codes: list[tuple[int, str]], g: int) -> StoredSubgraph:
        table.check_known(SUBGRAPH, f"subgraph {g}")
        stored = zip(table.tables(0), offsets, strict=True)
        tensors = [self._stored(each, offset, f"tensor {t} of subgraph {g}") for t, (each, offset) in enumerate(stored)]
        self.source.bound(len(tensors))
        nodes = []
        for n, node in enumerate(table.tables(3)):
            place, index = f"operator {n} of subgraph {g}", node.number(0, "u32")
            node.check_known(OPERATOR, place)
            if index >= len(codes):
                raise self.source.refuse(f"operator code {index} is none of {len(codes)}", place)
            lists = [self._known(node.numbers(field, "i32"), tensors, place) for field in (1, 2, 8)]
            code, name = codes[index]
            reads, writes, intermediates = lists
            self._check_options(node, code, name, place)
            mutated = {t for t, is_mutated in zip(reads, node.numbers(7, "u8"), strict=False) if is_mutated}
            if any(not tensors[t].is_variable for t in mutated if t >= 0):
                raise self.source.refuse(f"{name} changes an operand that is not a variable", place)
            nodes.append(StoredOperator(name, code, reads, writes, intermediates, node.table(4)))
        inputs, outputs = (self._known(table.numbers(field, "i32"), tensors, f"subgraph {g}") for field in (1, 2))
        return StoredSubgraph(tensors, inputs, outputs, nodes)

    def _titles(self, model: TableAt) -> list[str]:
        """Return the name of each subgraph: that of its first signature, else its own."""
        signatures = dict[int, str]()
        for table in model.tables(7):
            table.check_known(SIGNATURE, "signatures")
            signatures.setdefault(table.number(4, "u32"), table.text(2))
        own = [table.text(4) or f"subgraph {g}" for g, table in enumerate(model.tables(2))]
        return [signatures.get(g) or name for g, name in enumerate(own)]

    def _check_options(self, node: TableAt, code: int, name: str, place: str) -> None:
        """Refuse options of another kind if they name subgraphs, and list operators that are not known.

        spec: FP6.17
        """
        if code in OPTIONS and node.number(3, "u8") not in (0, OPTIONS[code]):
            raise self.source.refuse(f"{name} has options of another kind", place)
        options = node.table(4)
        if code in OPTIONS and options is not None:
            options.check_known(2 if code != CALL_ONCE else 1, place)
        if code >= len(OPERATORS) or code < 0 or name in UNKNOWN:
            text = f"{name} may use other memory than its operands and results ({place})"
            self.undecided[UndecidedConstruct("operator of TensorFlow Lite", text)] = None

    def _known(self, rows: list[int], tensors: list[StoredTensor], place: str) -> list[int]:
        for t in rows:
            if not -1 <= t < len(tensors):
                raise self.source.refuse(f"tensor {t} is none of {len(tensors)} tensors", place)
        return rows

    def _stored(self, table: TableAt, offset: int, place: str) -> StoredTensor:
        name, number = table.text(3) or place, table.number(2, "u32")
        is_variable = bool(table.number(5, "u8"))
        table.check_known(TENSOR, place)
        if number >= len(self.buffers):
            raise self.source.refuse(f"buffer {number} is none of {len(self.buffers)}", place)
        held = self.buffers[number]
        if held.content(0).length or held.number(1, "u64") > 1:
            return StoredTensor(name, "uint8", 0, None, False, "constants")
        if offset == RUNTIME:
            return StoredTensor(name, "uint8", 0, None, False, "tensors that the runtime places")
        code, shape = table.number(1, "i8"), self._shape(table, place)
        if table.table(6) is not None or table.tables(9):
            raise self.source.refuse("it is sparse, or holds other tensors", place, "only constants may be sparse")
        if code not in TYPES or min(shape, default=0) < 0:
            construct = "" if code in TYPES else f"element type {code}"
            what = f"a tensor of type {code} and shape {shape[:8]} has no size"
            raise self.source.refuse(what, place, construct=construct)
        size = nbytes((elements_of(shape),), TYPES[code])
        if offset + size >= UINT64_END:
            raise self.source.refuse("it ends beyond 64 bits", place)
        return StoredTensor(name, TYPES[code], size, offset, is_variable)

    def _shape(self, table: TableAt, place: str) -> list[int]:
        """Return the sizes of a tensor. Its signature may leave some of them open, and states no others."""
        shape, signature = table.numbers(0, "i32"), table.numbers(7, "i32")
        if signature and (
            len(signature) != len(shape) or any(a not in (OPEN, b) for a, b in zip(signature, shape, strict=True))
        ):
            raise self.source.refuse(f"its shape is {shape[:8]} and its signature {signature[:8]}", place)
        return shape

    def _check_open(self, tables: Sequence[TableAt]) -> None:
        """Check that each open dimension of the inputs of subgraphs has the size of the file, as the user says.

        All other sizes in the file follow from these. spec: FP6.16
        """
        open_dims = dict[str, int]()
        for g, table in enumerate(tables):
            tensors = table.tables(0)
            for t in dict.fromkeys(table.numbers(1, "i32")):
                if 0 <= t < len(tensors):
                    name = tensors[t].text(3) or f"tensor {t} of subgraph {g}"
                    signature, shape = tensors[t].numbers(7, "i32"), tensors[t].numbers(0, "i32")
                    for axis, (stated, size) in enumerate(zip(signature, shape, strict=False)):
                        if stated == OPEN and open_dims.setdefault(f"{name}:{axis}", size) != size:
                            what = f"the open dimension {name}:{axis} has two sizes in the file"
                            raise self.source.refuse(what, None, "give the inputs of its subgraphs different names")
        for name, size in self.source.dims.items():
            if open_dims.get(name) != size:
                what = f"--dim {name}={size}: " + (
                    f"the sizes in the file are those at {open_dims[name]}" if name in open_dims
                    else f"its open dimensions are {list_names(list(open_dims)) or 'none'}"
                )  # fmt: skip
                raise self.source.refuse(what, None, "convert the model anew at the sizes that it will run at")
        if left := [name for name in open_dims if name not in self.source.dims]:
            flags = " ".join(f"--dim {name}={open_dims[name]}" for name in left[:4])
            raise self.source.refuse(
                f"dimensions of its inputs are open, and its sizes are placeholders: {list_names(left)}",
                None,
                f"convert the model at the sizes that it will run at, or, if those of the file are meant, add {flags}",
            )
        self.open_dims = open_dims

    # Tensors

    def given(self, g: int, t: int, role: Role, flags: int) -> None:
        """State a tensor that is written before the run."""
        self.written.update(self.of("", g, [t], role, flags))

    def of(
        self, call: str, g: int, tensors: Sequence[int], role: Role = Role.ACTIVATION, flags: int = 0
    ) -> list[int]:  # fmt: skip
        """Return the rows of the tensors of a subgraph that the plan places, each once, for a call of it."""
        found: dict[int, None] = {}
        self.source.count_work(len(tensors))
        for t in tensors:
            if t == -1:
                continue
            stored = self.graphs[g].tensors[t]
            if stored.offset is None:
                self.outside[stored.why] = "the file has them" if stored.why == "constants" else "the plan states none"
                continue
            key = ("" if stored.is_variable else call, g, t)
            if key not in self.rows:
                name = self.names(f"{call}{stored.name}")
                self.rows[key] = len(self.building.tensors)
                self.building.tensors.append(StatedTensor(
                    name, stored.bytes, 0, stored.offset, role, flags, stored.dtype, element_alignment(stored.dtype)
                ))  # fmt: skip
                self.source.bound(len(self.building.tensors))
            found[self.rows[key]] = None
        return list(found)

    # Steps

    def step(
        self, name: str, op: str, reads: Sequence[int], writes: Sequence[int], changes: Sequence[int] = ()
    ) -> None:  # fmt: skip
        """State a step, if it touches the plan at all. `changes` are among both reads and writes."""
        if reads or writes:
            self.building.step(self.steps(name), (DOMAIN, op.replace("\0", "_")), reads, writes, changes)
            self.source.bound(len(self.building.steps))
            self.written.update(writes)

    def subgraph(self, call: str, g: int, depth: int) -> None:
        """State the operators of a subgraph, in their order."""
        self.called.add(g)
        self.source.check_depth(depth, call or None)
        self.source.count_work(16)
        for n, node in enumerate(self.graphs[g].nodes):
            name = f"{call}{n} {node.op}"
            if node.code == IF:
                self.branch(name, call, g, node, depth)
            elif node.code == WHILE:
                self.loop(name, call, g, node, depth)
            elif node.code == CALL_ONCE:
                self.subgraph(f"{name}/", self.callee(node, 0, name), depth + 1)
            else:
                self.operator(name, call, g, node)

    def operator(self, name: str, call: str, g: int, node: StoredOperator) -> None:
        """State an operator that calls no subgraph. spec: FP6.4, FP6.5, FP6.6"""
        operands = node.reads
        if node.op == ETHOS_U:
            why = "it holds operands and results by design, and its commands are not read"
            self.outside[f"scratch of {name}"] = why
            operands = [t for k, t in enumerate(operands) if k not in SCRATCH]
            # The order of its reads is not known: results may be in the bytes of operands (spec: FP6.13).
            self.assumed[ASSUMED] = None
            self.step(f"{name}/operands", node.op, self.of(call, g, operands), ())
            operands = []
        reads, writes = self.of(call, g, operands), self.of(call, g, [*node.writes, *node.intermediates])
        state = [row for row in reads if self.building.tensors[row].role is Role.PARAMETER]
        for row in state:
            self.donated[self.building.tensors[row].name] = None
        for row in writes:
            if row not in self.written and row not in reads:
                first = node.op in VIEWS | UPDATES
                self.share(row, node.op, self.of(call, g, node.reads[:1]) if first else reads)
        changes = dict.fromkeys((*state, *(row for row in writes if row in reads)))
        self.step(name, node.op, reads, list(dict.fromkeys((*writes, *changes))), list(changes))

    def share(self, row: int, op: str, reads: list[int]) -> None:
        """State that a result shows or takes the bytes of an operand, if it is in them. spec: FP6.5"""
        tensor = self.building.tensors[row]
        for of in reads if op in VIEWS | UPDATES | IN_PLACE else ():
            operand = self.building.tensors[of]
            if (operand.offset, operand.bytes) == (tensor.offset, tensor.bytes) and tensor.bytes:
                shares = Shares.VIEW if op in VIEWS else Shares.IN_PLACE
                self.building.tensors[row] = tensor._replace(shares=shares, of=of)
                if shares is Shares.IN_PLACE and operand.role is Role.INPUT:
                    self.donated[operand.name] = None
                return

    def callee(self, node: StoredOperator, field: int, place: str) -> int:
        """Return the subgraph that an option names."""
        g = node.options.number(field, "i32") if node.options is not None else -1
        if not 0 <= g < len(self.graphs):
            raise self.source.refuse(f"subgraph {g} is none of {len(self.graphs)}", place)
        return g

    def branch(self, name: str, call: str, g: int, node: StoredOperator, depth: int) -> None:
        """State an If: operand 0 chooses which of two subgraphs runs. spec: FP6.7"""
        callees = [self.callee(node, field, name) for field in (0, 1)]
        enter, operands, results = self.steps(name), self.of(call, g, node.reads[1:]), self.of(call, g, node.writes)
        self.building.begin(enter, (DOMAIN, "IF"), self.of(call, g, node.reads[:1]), (), exclusive=True)
        for k, callee in enumerate(callees):
            if k:
                self.building.arm()
            inner, graph = f"{name}/{k}/", self.graphs[callee]
            self.copy(f"{inner}operands", operands, self.of(inner, callee, graph.inputs))
            self.subgraph(inner, callee, depth + 1)
            # The copies that a branch makes in the bytes of the results. After the branch they are the If's.
            copied = [self.place_of(row, f"{inner}{self.building.tensors[row].name}") for row in results]
            self.step(f"{inner}results", "copy", self.of(inner, callee, graph.outputs), copied)
        self.building.end((), results, [row for row in results if row in self.written])
        self.written.update(results)

    def place_of(self, row: int, name: str) -> int:
        """Return a new tensor in the bytes of another one."""
        found = self.building.tensors[row]
        self.building.tensors.append(found._replace(name=self.names(name), role=Role.ACTIVATION, flags=0))
        self.source.bound(len(self.building.tensors))
        return len(self.building.tensors) - 1

    def loop(self, name: str, call: str, g: int, node: StoredOperator, depth: int) -> None:
        """State a While: its condition, then body and condition while it holds. spec: FP6.8"""
        test, body = (self.callee(node, field, name) for field in (0, 1))
        operands, results = self.of(call, g, node.reads), self.of(call, g, node.writes)
        first, again, inner = f"{name}/first/", f"{name}/again/", f"{name}/body/"
        self.copy(f"{first}operands", operands, self.of(first, test, self.graphs[test].inputs))
        self.subgraph(first, test, depth + 1)
        self.copy(f"{name}/results", operands, results)
        self.step(f"{first}condition", "condition", self.of(first, test, self.graphs[test].outputs), ())
        self.building.begin(self.steps(name), (DOMAIN, "WHILE"), (), (), iterates=True)
        self.copy(f"{inner}operands", results, self.of(inner, body, self.graphs[body].inputs))
        self.subgraph(inner, body, depth + 1)
        self.copy(f"{inner}results", self.of(inner, body, self.graphs[body].outputs), results)
        self.copy(f"{again}operands", results, self.of(again, test, self.graphs[test].inputs))
        self.subgraph(again, test, depth + 1)
        self.step(f"{again}condition", "condition", self.of(again, test, self.graphs[test].outputs), ())
        self.building.end((), ())

    def copy(self, name: str, reads: list[int], writes: list[int]) -> None:
        """State a copy that a call makes. A tensor that was written before is changed."""
        changes = [row for row in writes if row in self.written]
        self.step(name, "copy", list(dict.fromkeys((*reads, *changes))), writes, changes)
