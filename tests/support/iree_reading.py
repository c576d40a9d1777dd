"""A second reading of IREE's dumps after LayoutSlices, which shares nothing with the reader.

It has the commands, and what they touch. A line is cut into words, and its operation says which words it may have;
anything else raises. What a name may stand for is a set of places, so that branches and loops are read once, in the
order of the text.
"""

from __future__ import annotations

import re

WORD = re.compile(
    r'"(?:[^"\\]|\\.)*"|%[\w$.-]+(?:#\d+)?|@[\w$.]+|[!#]?[\w.]+(?:<(?:[^<>]|<[^<>]*>)*>)?|->|=>|::|\s+|[-{}()\[\],:=]'
)
KINDS = {
    "arith": "", "hal": "message shape type encoding", "util.return": "", "util.global.load": "immutable",
    "util.global.store": "", "util.buffer.constant": "", "scf.yield": "", "scf.if": "", "scf.for": "to step iter_args",
    "stream.tensor.import": "on consume in", "stream.tensor.export": "on in", "stream.timepoint.join": "max",
    "stream.timepoint.immediate": "", "stream.timepoint.await": "sync",
    "stream.resource.alloca": "uninitialized on await",
    "stream.resource.alloc": "uninitialized on", "stream.resource.dealloca": "on await", "stream.resource.subview": "",
    "stream.resource.try_map": "on", "stream.file.constant": "on for", "stream.file.read": "on await",
    "stream.cmd.execute": "once on await with as", "stream.cmd.dispatch": "", "stream.cmd.concurrent": "",
    "stream.cmd.serial": "", "stream.cmd.fill": "for", "stream.cmd.copy": "", "ro": "for", "wo": "for", "rw": "for",
    "dense": "", "util.initializer": "", "util.func": "public private attributes",
}  # fmt: skip
"""The words of each operation, but for types."""
TYPES = re.compile(
    r"[!#][\w.]+(?:<.*>)?|tensor<.*>|vector<.*>|dense<.*>|index|[if]\d+|-?\d+|alignment|hal\..*|dense_row_major"
)
WINDOW = re.compile(r"(%[\w$.#-]+)\[(%[\w$.#-]+)(?: for %[\w$.#-]+)?\]")
Place = tuple[int, int]


def program(text: str) -> object:
    """Each command of the functions that have any, with the sizes of the allocations that it touches."""
    found: dict[str, set[int]] = {}
    sections = re.split(r"^(// -----// IR Dump \w+ \w+: [\w-]+ //----- //\n)", text, flags=re.MULTILINE)
    assert not sections[0].strip()
    for head, body in zip(sections[1::2], sections[2::2], strict=True):
        match = re.fullmatch(
            r"\s*(util\.(?:func|initializer).*\n(?:.*\n)*?\}\n)\s*", re.sub(r"(?m)^ *//.*\n?", "", body)
        )
        assert match is not None
        assert head.endswith(" LayoutSlicesPass: iree-stream-layout-slices //----- //\n")
        if "stream.cmd.execute" in body:
            _Function(match[1].split("\n"), found if " After " in head else None)
    return found


class _Function:
    def __init__(self, lines: list[str], found: dict[str, set[int]] | None) -> None:
        self.runs, self.found = found is not None, found if found is not None else {}
        self.constants: dict[str, int] = {}
        self.places: dict[str, frozenset[Place]] = {}
        self.open: list[str] = []
        self.label, self.touches = "", set[Place]()
        self.yielded: list[list[frozenset[Place]]] = []
        self.loops: list[list[str]] = []
        for _ in range(2):  # what a loop hands on is known the second time
            for line in lines:
                self.line(line.strip())
            assert not self.open
            if not self.runs or not any("scf.for" in line for line in lines):
                break

    def line(self, text: str) -> None:
        if not text or re.fullmatch(r"\[\d+, \d+\] = %[\w$.#-]+,?|\}\) : index|\]>", text):
            return
        if text.startswith("}"):
            self.close(text)
            return
        made, equals, body = text.partition(" = ")
        names = re.findall(r"%[\w$.-]+(?::\d+)?", made) if equals and made.startswith("%") else []
        body = body if names else text
        assert not names or re.fullmatch(r"%[\w$.-]+(?::\d+)?(?:, %[\w$.-]+)*", made)
        op = re.match(r"[a-z_]+(?:\.[a-z_]+)*", body)
        assert op is not None
        self.check(op[0], body[op.end() :])
        results = [f"{n.partition(':')[0]}#{k}" for n in names for k in range(int(n.partition(":")[2] or 0))] or names
        if self.runs:
            self.run(op[0], body, results)
        elif body.endswith("{") and op[0] != "stream.resource.pack":
            self.open.append(op[0])

    def check(self, op: str, rest: str) -> None:
        """Every word is one that the operation has, and each of its words is there once."""
        if op == "stream.resource.pack":
            return
        if op == "util.buffer.constant":
            assert re.fullmatch(r" <alignment = \d+> : !util\.buffer = #util\.composite<\d+xi8, \[", rest), rest
            return
        kind = op.partition(".")[0] if op.startswith(("arith.", "hal.")) else op
        words, at = [], 0
        if kind in ("hal", "dense"):
            rest = re.sub(
                r"^<(?:[^<>]|<[^<>]*>)*>", lambda m: re.sub(r"[<>]", " ", m[0]).replace("!hal.buffer_view", ""), rest
            )
        if kind == "dense":
            rest = re.sub(r"[\[\]\d, -]+", " ", rest)
        while at < len(rest):
            word = WORD.match(rest, at)
            assert word is not None, rest[at:]
            words.append(word[0])
            at = word.end()
        if kind == "util.func":
            words = re.sub(r"iree\.\w+(\.\w+)*( = (\"[^\"]*\"|\{[^{}]*\}))?", "", rest).split()
            words = [word for word in words if not re.fullmatch(r"[@%!].*|\{|->|.?,|[(){}]+|\(.*", word)]
        plain = [word for word in words if re.match(r"[!#\w]", word)]
        known = KINDS[kind].split()
        rest_of = [word for word in plain if word not in known]
        assert all(TYPES.fullmatch(word) or kind in ("arith", "util.buffer.constant") for word in rest_of), (
            op,
            rest_of,
        )
        assert all(plain.count(word) <= 1 for word in known if word not in ("for", "as", "on")), rest
        if op == "arith.constant":
            assert re.fullmatch(r" -?\d+ : \w+", rest)
        bare = re.sub(r'"[^"]*"', "", rest)
        depth = sum(bare.count(a) - bare.count(b) for a, b in ("()", "[]"))
        assert depth == 0

    def run(self, op: str, body: str, results: list[str]) -> None:
        operands = re.findall(r"%[\w$.-]+(?:#\d+)?", body)
        if op == "arith.constant":
            self.constants[results[0]] = int(body.split()[1])
        elif op in ("stream.resource.alloca", "stream.resource.alloc"):
            self.places[results[0]] = frozenset(((self.constants[operands[-1]], 0),))
        elif op == "stream.resource.subview":
            shift = self.constants[operands[1]]
            self.places[results[0]] = frozenset((size, at + shift) for size, at in self.of(operands[0]))
        elif op == "stream.timepoint.await":
            given = re.findall(r"%[\w$.#-]+", body.partition("=>")[2].partition(" : ")[0])
            self.places |= {name: self.of(one) for name, one in zip(results, given, strict=True)}
        elif op == "stream.cmd.execute":
            self.places |= {name: self.of(one) for one, name in re.findall(r"(%[\w$.#-]+) as (%[\w$.#-]+):", body)}
            self.open.append("execute")
        elif op in ("scf.if", "scf.for"):
            given = re.findall(r"(%[\w$.-]+) = (%[\w$.#-]+)", body.partition("iter_args")[2])
            for name, one in given:
                self.places[name] = self.places.get(name, frozenset()) | self.of(one)
            self.open.append(op)
            self.loops.append([name for name, _ in given])
            self.yielded.append([frozenset() for _ in results])
            self.names = [*getattr(self, "names", []), results]
        elif op == "scf.yield":
            values = [self.of(name) for name in re.findall(r"%[\w$.#-]+", body.partition(" : ")[0])]
            self.yielded[-1] = [old | new for old, new in zip(self.yielded[-1], values, strict=True)]
            for name, new in zip(self.loops[-1], values, strict=False):
                self.places[name] |= new
        elif op in ("stream.cmd.concurrent", "stream.cmd.serial"):
            self.open.append(op)
        elif op == "stream.cmd.dispatch":
            self.label = re.findall(r"@([\w$.]+)", body)[-1]
            self.open.append("dispatch")
        elif op in ("ro", "wo", "rw"):
            assert self.open[-1] == "dispatch"
            self.touch(WINDOW.findall(body)[0])
        elif op in ("stream.cmd.fill", "stream.cmd.copy", "stream.file.read"):
            self.label = op
            windows = WINDOW.findall(body.partition("=>")[2] if op == "stream.file.read" else body)
            self.touch(windows[-1])
            for window in windows[:-1] if op == "stream.cmd.copy" else ():
                self.touch(window)
            self.ended()
        elif body.endswith("{"):
            self.open.append(op)

    def of(self, name: str) -> frozenset[Place]:
        return self.places.get(name, frozenset())

    def touch(self, window: tuple[str, str]) -> None:
        places = {(size, at + self.constants[window[1]]) for size, at in self.of(window[0])}
        self.touches |= places

    def ended(self) -> None:
        """A command is over: it is a step, unless it is in a region of what runs at once in a branch."""
        if "stream.cmd.concurrent" not in self.open or "scf.if" not in self.open:
            if self.touches:
                self.found.setdefault(self.label, set()).update(size for size, _ in self.touches)
            self.touches = set()

    def close(self, text: str) -> None:
        assert text in ("}", "} => !stream.timepoint", "} else {")
        if text == "} else {":
            assert self.open[-1] == "scf.if"
            return
        kind = self.open.pop()
        assert kind.endswith("execute") == (text != "}")
        if not self.runs:
            return
        if kind in ("dispatch", "stream.cmd.concurrent", "stream.cmd.serial"):
            self.ended()
        elif kind.startswith("scf."):
            loop, found, names = self.loops.pop(), self.yielded.pop(), self.names.pop()
            for k, (name, places) in enumerate(zip(names, found, strict=True)):
                self.places[name] = places | (self.of(loop[k]) if loop else frozenset())
