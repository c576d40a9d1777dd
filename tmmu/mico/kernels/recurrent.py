"""Recurrent networks: LSTM, GRU and RNN with their default activations, in either direction or both.

The state of a step is in the results of the node, so a kernel has no memory of its own: h is the row of Y that was
written before, and c of LSTM is Y_c. A node without the results that hold its state is refused. spec: MC4.3, MC4.13
"""

from __future__ import annotations

from collections.abc import Callable
from string import Template

from tmmu.mico.kernels.functions import TEMPLATES
from tmmu.mico.kernels.node import KernelCall, NodeCall, NoKernel

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
DEFAULTS = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}

_WALK = """\
/* $about */
void $$name(uint8_t *y, uint8_t *h_out, $state_parameters const uint8_t *x, const uint8_t *w, const uint8_t *r,
    const uint8_t *bias, const uint8_t *h_in, $parameters size_t steps, size_t batch, size_t inputs, size_t hidden,
    size_t directions, bool backward)
{
    for (size_t d = 0; d < directions; d++) {
        bool reversed = d == 1 || backward;
        for (size_t step = 0; step < steps; step++) {
            size_t t = reversed ? steps - 1 - step : step, before = reversed ? t + 1 : t - 1;
            for (size_t b = 0; b < batch; b++) {
                const uint8_t *from = step == 0 ? h_in : y;
                size_t old = step == 0 ? (d * batch + b) * hidden : ((before * directions + d) * batch + b) * hidden;
                size_t at_x = (t * batch + b) * inputs, at_y = ((t * directions + d) * batch + b) * hidden;
$prepare                for (size_t j = 0; j < hidden; j++) {
                    $$T gate[$gates], past[$gates];
                    for (size_t g = 0; g < $gates; g++) {
                        size_t row = (d * $gates + g) * hidden + j, add = d * 2 * $gates * hidden + g * hidden + j;
                        $$T sum = bias == NULL ? 0 : load_$$s(bias, add);
                        $$T back = bias == NULL ? 0 : load_$$s(bias, add + $gates * hidden);
                        for (size_t k = 0; k < inputs; k++) {
                            sum = madd$$f(load_$$s(x, at_x + k), load_$$s(w, row * inputs + k), sum);
                        }
                        for (size_t k = 0; from != NULL && k < hidden; k++) {
                            back = madd$$f($past, load_$$s(r, row * hidden + k), back);
                        }
                        gate[g] = sum;
                        past[g] = back;
                    }
                    $$T h = from == NULL ? 0 : load_$$s(from, old + j);
$cell                    store_$$s(y, at_y + j, h);
                }
            }
        }
        for (size_t k = 0; h_out != NULL && k < batch * hidden; k++) {
            size_t last = (backward || d == 1 ? 0 : steps - 1) * directions + d;
            store_$$s(h_out, d * batch * hidden + k, load_$$s(y, last * batch * hidden + k));
        }
    }
}
"""

_OWN = "size_t own = (d * batch + b) * hidden;\n"
"""The place of a state that has no steps."""

_SIGMOID = "1 / (1 + exp$f(-{}))"


def _indented(lines: str, by: int = 20) -> str:
    return "".join(f"{' ' * by}{line}\n" for line in lines.splitlines())


TEMPLATES["rnn"] = Template(_WALK).substitute(
    about="A recurrent network. A bias, or a first state, that is NULL is 0.",
    state_parameters="", parameters="", prepare="", gates=1, past="load_$s(from, old + k)",
    cell=_indented("h = tanh$f(gate[0] + past[0]);"),
)  # fmt: skip

TEMPLATES["lstm"] = Template(_WALK).substitute(
    about="A recurrent network with the state c. A bias, a first state, or weights of peepholes that are NULL are 0.",
    state_parameters="uint8_t *c,", parameters="const uint8_t *c_in, const uint8_t *peep,",
    prepare=_indented(_OWN, 16), gates=4,
    past="load_$s(from, old + k)",
    cell=_indented(f"""\
const uint8_t *from_c = step == 0 ? c_in : c;
size_t p = d * 3 * hidden + j;
$T state = from_c == NULL ? 0 : load_$s(from_c, own + j);
$T in = gate[0] + past[0] + (peep == NULL ? 0 : load_$s(peep, p) * state);
$T forget = gate[2] + past[2] + (peep == NULL ? 0 : load_$s(peep, p + 2 * hidden) * state);
state = state * ({_SIGMOID.format("forget")}) + tanh$f(gate[3] + past[3]) * ({_SIGMOID.format("in")});
$T out = gate[1] + past[1] + (peep == NULL ? 0 : load_$s(peep, p + hidden) * state);
store_$s(c, own + j, state);
h = tanh$f(state) * ({_SIGMOID.format("out")});"""),
)  # fmt: skip

_UPDATE = f"$T kept = {_SIGMOID.format('(gate[0] + past[0])')};\n"

TEMPLATES["gru_linear"] = Template(_WALK).substitute(
    about="A gated recurrent network that resets after the product. A bias, or a first state, that is NULL is 0.",
    state_parameters="", parameters="", prepare="", gates=3, past="load_$s(from, old + k)",
    cell=_indented(_UPDATE + f"""\
$T reset = {_SIGMOID.format("(gate[1] + past[1])")};
h = (1 - kept) * tanh$f(gate[2] + reset * past[2]) + kept * h;"""),
)  # fmt: skip

TEMPLATES["gru"] = Template(_WALK).substitute(
    about="A gated recurrent network. The reset state is in h_out until the last step. What is NULL is 0.",
    state_parameters="", parameters="", gates=3,
    past="(g == 2 ? load_$s(h_out, own + k) : load_$s(from, old + k))",
    prepare=_indented(f"""\
{_OWN}for (size_t j = 0; from != NULL && j < hidden; j++) {{
    size_t row = (d * 3 + 1) * hidden + j, add = d * 6 * hidden + hidden + j;
    $T reset = bias == NULL ? 0 : load_$s(bias, add) + load_$s(bias, add + 3 * hidden);
    for (size_t k = 0; k < inputs; k++) {{
        reset = madd$f(load_$s(x, at_x + k), load_$s(w, row * inputs + k), reset);
    }}
    for (size_t k = 0; k < hidden; k++) {{
        reset = madd$f(load_$s(from, old + k), load_$s(r, row * hidden + k), reset);
    }}
    store_$s(h_out, own + j, ({_SIGMOID.format("reset")}) * load_$s(from, old + j));
}}""", 16),
    cell=_indented(_UPDATE + "h = (1 - kept) * tanh$f(gate[2] + past[2]) + kept * h;"),
)  # fmt: skip


def recurrent(node: NodeCall) -> list[KernelCall]:
    """Return the call of LSTM, GRU or RNN. Raises NoKernel if a result that holds the state is left out."""
    op, x, w, r = node.op, node.x, node.needed(1), node.needed(2)
    ways = 2 if node.get("direction", "forward") == "bidirectional" else 1
    given = [each.decode() if isinstance(each, bytes) else each for each in node.get("activations") or DEFAULTS[op]]
    if [each.lower() for each in given] != [each.lower() for each in DEFAULTS[op] * ways] and given != DEFAULTS[op]:
        raise NoKernel(f"it has no kernel for the activations {', '.join(given)}")
    if node.get("layout", 0) or node.get("input_forget", 0) or node.get("clip", 0):
        raise NoKernel("it has no kernel for another layout, for input_forget or clip")
    if x.shape[0] == 0:
        raise NoKernel("it has no steps")
    if node.operand(4) is not None:
        raise NoKernel("it has no kernel for sequences of several lengths")
    linear = node.get("linear_before_reset", 0)
    y, h_out = node.y, node.result(1)
    if h_out is None and op == "GRU" and not linear:
        raise NoKernel("its result Y_h, which holds its state, is left out")
    bias, h_in = (node.operand(k) for k in (3, 5))
    codes = ["NULL" if each is None else each.code for each in (h_out, bias, h_in)]
    name = "gru_linear" if op == "GRU" and linear else op.lower()
    state, more = [], []
    if op == "LSTM":
        c = node.result(2)
        if c is None:
            raise NoKernel("its result Y_c, which holds its state, is left out")
        state = [c.code]
        more = ["NULL" if each is None else each.code for each in (node.operand(6), node.operand(7))]
    backward = "true" if node.get("direction", "forward") == "reverse" else "false"
    numbers = (*x.shape, r.shape[2], w.shape[0])
    arguments = (
        y.code, codes[0], *state, x.code, w.code, r.code, *codes[1:], *more, *map(str, numbers), backward,
    )  # fmt: skip
    return [KernelCall(name, (node.of_type(x, ("float32", "float64")),), arguments)]


RULES: dict[str, Callable[[NodeCall], list[KernelCall]]] = dict.fromkeys(GATES, recurrent)
