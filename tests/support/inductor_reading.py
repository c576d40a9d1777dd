"""What an Inductor wrapper does, by running it: Python runs its text, and every function that it calls is a recorder.

A recorder notes which bytes of which pool its operands begin at. It shares no code with the reader, and accepts any
function and any kernel.
"""

from __future__ import annotations

import re
from typing import Any

WIDTHS = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2, "int16": 2}
CHECKS = re.compile(r"assert_\w+|synchronize|set_device|get_raw_stream|_cuda_getCurrentRawStream")
VIEWS = ("view", "reshape", "permute", "detach", "alias", "slice", "select", "transpose")

Address = tuple[int, int]
"""A pool, by the order in which pools are made, and the byte at which a buffer begins in it."""
Entry = tuple[str, frozenset[Address]]


class Memory:
    """A tensor: the buffer in a pool that it is of, nowhere if `pool` is negative."""

    def __init__(self, log: list[Entry], pool: int = -1, base: int = 0) -> None:
        self.log, self.pool, self.base = log, pool, base

    def __getitem__(self, key: object) -> Memory:
        return Memory(self.log)

    def __setitem__(self, key: object, value: object) -> None:
        note(self.log, "item assignment", [self, value])

    def __getattr__(self, name: str) -> Any:
        if name in ("data", "T"):
            return self
        return Method(self, name)

    def __bool__(self) -> bool:
        return True


class Method:
    """A method of a tensor."""

    def __init__(self, of: Memory, name: str) -> None:
        self.of, self.name = of, name

    def __call__(self, *args: object, **options: object) -> object:
        if self.name not in VIEWS:
            note(self.of.log, f"Tensor.{self.name}", [self.of, args, options])
        return self.of if self.name.endswith("_") or self.name in VIEWS else Memory(self.of.log)


class Module:
    """A module or a function: any attribute is one, and a call is noted."""

    def __init__(self, log: list[Entry], path: str, pools: list[int], text: str = "") -> None:
        self._log, self._path, self._pools, self._text = log, path, pools, text

    def __getattr__(self, name: str) -> Module:
        if name.startswith("__"):
            raise AttributeError(name)
        return Module(self._log, f"{self._path}.{name}" if name != "run" else self._path, self._pools, self._text)

    def __call__(self, *args: Any, **options: object) -> object:
        parts = self._path.split(".")
        if "_empty_strided" in self._path:
            self._pools.append(len(self._pools))
            return Memory(self._log, len(self._pools) - 1)
        if parts[-1] == "_alloc_from_pool":
            pool, offset, *_ = args
            return Memory(self._log, pool.pool, pool.base + offset)
        if parts[-1] == "_reinterpret_tensor" or (len(parts) > 3 and parts[-2] in VIEWS):
            return args[0]
        if parts[-1] == "_align":
            return -(-args[0] // 64) * 64
        if CHECKS.fullmatch(parts[-1]) or parts[-1] == "wait":
            return 0
        if parts[0] == "async_compile":
            return Module(self._log, "kernel", self._pools, "".join(str(each) for each in args))
        if parts[-1] == "AsyncCompile":
            return Module(self._log, "async_compile", self._pools)
        note(self._log, self._path + words(self._text), [args, options])
        op = parts[-2] if len(parts) > 3 else parts[-1]
        if op.endswith("_"):
            return args[0]
        return Memory(self._log)


def words(text: str) -> str:
    """A text without comments and blanks."""
    return "".join(re.sub(r"//[^\n]*|/\*.*?\*/|#(?!include|pragma)[^\n]*", "", text, flags=re.DOTALL).split())


def note(log: list[Entry], label: str, operands: object) -> None:
    """Note a call, with the buffers in pools that are found in its operands."""
    found: set[Address] = set()
    left = [operands]
    while left:
        each = left.pop()
        if isinstance(each, Memory) and each.pool >= 0:
            found.add((each.pool, each.base))
        elif isinstance(each, list | tuple | set):
            left += each
        elif isinstance(each, dict):
            left += each.values()
    if found:
        log.append((label, frozenset(found)))


def run(text: str) -> list[Entry]:
    """The calls of a wrapper in their order. Raises what Python raises for a text that it cannot run."""
    log: list[Entry] = []
    pools: list[int] = []

    def imported(
        name: str, _globals: object = None, _locals: object = None, names: Any = (), _level: int = 0
    ) -> Module:
        return Module(log, name if names else name.split(".")[0], pools)

    builtins = {
        "__import__": imported, "__build_class__": __build_class__, "max": max, "min": min, "int": int, "zip": zip,
        "list": list, "globals": dict,
    }  # fmt: skip
    names: dict[str, Any] = {"__builtins__": builtins, "__name__": "wrapper"}
    exec(compile(text, "wrapper", "exec"), names)
    count = len(re.findall(r"\barg\d+_1\b", text.split("= args", 1)[0].rpartition("\n")[2]))
    names["call"]([Memory(log) for _ in range(count)])
    return log
