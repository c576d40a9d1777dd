"""An executor of Relax scripts that shares nothing with their reader: Python runs the text, on stand-ins for TVM.

Each tensor has its storage and offset. A kernel's own body runs once over its index space, so that what it loads and
stores is seen. Anything that the stand-ins do not have raises. Both branches of an If run, each in a run of its own.
"""

from __future__ import annotations

import sys
import typing
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

Where = tuple[str, int, int]
"""The function, the line and the number on that line of an allocation or a call."""
FLAGS = {"private", "pure", "s_tir", "check_well_formed"}


class Number:
    """An element, an index or a size: of any value."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)

    def _any(self, *_: object) -> Number:
        return Number()

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = __rfloordiv__ = _any
    __mod__ = __rmod__ = __truediv__ = __rtruediv__ = __neg__ = __lt__ = __le__ = __gt__ = __ge__ = _any


class Array:
    """A buffer of a kernel, on a tensor or none."""

    def __init__(self, tensor: Tensor | None, log: dict[str, set[Any]]) -> None:
        self._tensor, self._log = tensor, log

    def __getitem__(self, at: Any) -> Number:
        self._log["reads"] |= self._tensor.places if self._tensor else set()
        return _indexed(at)

    def __setitem__(self, at: Any, value: Any) -> None:
        assert isinstance(value, Number | int | float)
        self._log["writes"] |= self._tensor.places if self._tensor else set()
        _indexed(at)


def _indexed(at: Any) -> Number:
    assert all(isinstance(k, Number | int | slice) for k in (at if isinstance(at, tuple) else (at,)))
    return Number()


class Tensor:
    """Memory that a name of a function stands for: the places of its storages."""

    def __init__(self, *places: tuple[Where, int]) -> None:
        self.places = set(places)
        self.is_killed = False


def program(text: str) -> object:
    """The storages with their sizes, and the calls with the places that each stores into and touches, in the order of
    the text. Raises whatever what it does not know raises.
    """
    storages: dict[Where, int] = {}
    calls: dict[Where, tuple[str, set[Any], set[Any]]] = {}
    functions: dict[str, int] = {}
    for branch in (True, False):
        for name, number in _Run(text, branch).into(storages, calls).items():
            functions.setdefault(name, number)
    rank = {where: k for k, where in enumerate(sorted(storages, key=lambda where: (functions[where[0]], *where[1:])))}

    def placed(places: set[tuple[Where, int]]) -> list[tuple[int, int]]:
        return sorted((rank[where], offset) for where, offset in places)

    ordered = sorted(calls, key=lambda where: (functions[where[0]], *where[1:]))
    steps = [(calls[at][0], placed(calls[at][1]), placed(calls[at][1] | calls[at][2])) for at in ordered]
    return [storages[where] for where in rank], [step for step in steps if step[2]]


class _Run:
    """A run of all functions, with one outcome of all conditions."""

    def __init__(self, text: str, branch: bool) -> None:
        self.branch = branch
        self.functions: dict[str, Callable[..., Any]] = {}
        self.current = ""
        self.seen: dict[tuple[str, int], int] = defaultdict(int)
        names = SimpleNamespace
        self.space: dict[str, Any] = {
            "__builtins__": {"__build_class__": __build_class__, "__name__": "m", "range": _grid, "TypeVar": _symbol},
            "__name__": "m", "TypeVar": _symbol, "metadata": defaultdict(_Constants), "I": names(ir_module=_module),
            "T": _kernel_names(), "R": self.names(),
        }  # fmt: skip
        exec(compile(text, "script", "exec", dont_inherit=True), self.space)

    def into(self, storages: dict[Where, int], calls: dict[Where, Any]) -> dict[str, int]:
        self.storages, self.calls = storages, calls
        for name, function in self.functions.items():
            self.current = name
            returned = function(*(self.given(spec) for spec in typing.cast("Any", function).__annotations__.values()
                                  if spec is not function.__annotations__.get("return")))  # fmt: skip
            self.called("return", set(), set().union(*(t.places for t in _tensors(returned))), 10**9)
        return {name: k for k, name in enumerate(self.functions)}

    def given(self, spec: Any) -> Any:
        return _Condition(self.branch) if spec == ("R.Tensor", "bool") else Tensor()

    def where(self, line: int) -> Where:
        self.seen[self.current, line] += 1
        return self.current, line, self.seen[self.current, line]

    def called(self, name: str, writes: set[Any], touches: set[Any], line: int) -> None:
        _, stores, reads = self.calls.setdefault(self.where(line), (name, set(), set()))
        stores |= writes
        reads |= touches

    # The names of Relax

    def names(self) -> SimpleNamespace:
        def tensor(shape: Any, dtype: str = "float32") -> Any:
            return ("R.Tensor", dtype)

        def shape(dims: list[Any]) -> list[Any]:
            assert all(isinstance(dim, int | Number | _Symbol) for dim in dims)
            return dims

        def alloc_storage(size: list[int], index: int, scope: Text, dtype: Text) -> Any:
            (found,) = size
            where = self.where(_line())
            self.storages[where] = found
            assert isinstance(found, int)
            assert isinstance(index, int)
            assert isinstance(scope, Text)
            assert isinstance(dtype, Text)
            return Tensor((where, 0))

        def alloc_tensor(storage: Tensor, offset: int, dims: list[int], dtype: Text, index: int) -> Tensor:
            assert isinstance(offset, int)
            assert isinstance(dims, list)
            assert isinstance(dtype, Text)
            assert isinstance(index, int)
            assert not storage.is_killed
            return Tensor(*((where, at + offset) for where, at in storage.places))

        def own(dims: list[int], dtype: Text, index: int, scope: Text, ty_args: Any = ()) -> Tensor:
            assert isinstance(dims, list)
            assert isinstance(dtype, Text)
            assert isinstance(index, int)
            assert isinstance(scope, Text)
            return Tensor()

        def kill(tensor: Tensor) -> None:
            assert not tensor.is_killed
            tensor.is_killed = True

        def same(tensor: Tensor, to: Any) -> Tensor:
            assert not isinstance(to, Tensor)
            assert not tensor.is_killed
            return Tensor(*tensor.places)

        def packed(name: str, tensor: Tensor, *more: Any, sinfo_args: Any = (), ty_args: Any = ()) -> Tensor:
            if name == "vm.builtin.reshape":
                assert len(more) == 1
                return same(tensor, *more)
            assert name.startswith("others.")
            tensors = [*_tensors((tensor, *more))]
            written = tensors[-1].places if len(tensors) > 1 else set[Any]()
            self.called(name, written, set().union(*(each.places for each in tensors)), _line())
            return Tensor(*tensor.places)

        def attributes(found: Mapping[str, Any]) -> None:
            assert not any(isinstance(value, Tensor) for value in found.values())

        def function(**flags: Any) -> Any:
            assert set(flags) <= FLAGS
            return self.function

        memory = SimpleNamespace(
            alloc_storage=alloc_storage, alloc_tensor=alloc_tensor, kill_tensor=kill, kill_storage=kill
        )
        return SimpleNamespace(
            Tensor=tensor, Any="R.Any", Object="R.Object", shape=shape, memory=memory, str=Text, dtype=Text,
            builtin=SimpleNamespace(alloc_tensor=own), func_attr=attributes, reshape=same, match_cast=same,
            call_packed=packed, function=_Decorator(self.function, function), run=self,
        )  # fmt: skip

    def function(self, found: Any) -> Any:
        assert found.__name__ not in self.functions
        assert found.__defaults__ is None
        self.functions[found.__name__] = found
        return found


class Text(str):
    """The name of a type or a scope."""


class _Decorator:
    """A decorator, plain or called with flags; its other attributes are none."""

    def __init__(self, plain: Any, called: Any) -> None:
        self.plain, self.called = plain, called

    def __call__(self, *args: Any, **flags: Any) -> Any:
        return self.plain(*args) if args and not flags else self.called(*args, **flags)


class _Condition(Tensor):
    def __init__(self, value: bool) -> None:
        super().__init__()
        self.value = value

    def __bool__(self) -> bool:
        return self.value


class _Symbol(Number):
    pass


def _symbol(name: str) -> _Symbol:
    assert name.isidentifier()
    return _Symbol()


class _Constants:
    def __getitem__(self, at: int) -> Tensor:
        return Tensor()


def _module(found: type) -> type:
    assert found.__bases__ == (object,)
    return found


def _line() -> int:
    frame = sys._getframe(1)
    while frame.f_code.co_filename != "script":
        assert frame.f_back is not None
        frame = frame.f_back
    return frame.f_lineno


def _tensors(value: Any) -> Iterator[Tensor]:
    for each in value if isinstance(value, tuple) else (value,):
        assert isinstance(each, Tensor)
        assert not each.is_killed
        yield each


def _grid(*bounds: Any) -> Iterator[Any]:
    assert all(isinstance(bound, int | Number) for bound in bounds)
    yield tuple(Number() for _ in bounds) if len(bounds) > 1 else Number()


def _kernel_names() -> SimpleNamespace:
    def number(*args: Any) -> Number:
        assert all(isinstance(arg, int | float | str | Number) for arg in args)
        return Number()

    def integer(value: int) -> int:
        assert isinstance(value, int)
        return value

    @contextmanager
    def block(*names: str) -> Iterator[None]:
        assert all(isinstance(name, str) for name in names)
        yield

    def stated(*parts: Number) -> None:
        assert all(isinstance(part, Number) for part in parts)

    def attributes(found: Mapping[str, Any]) -> None:
        assert isinstance(found, dict)

    def remap(kinds: str, values: list[Number]) -> Any:
        assert len(kinds) == len(values)
        return [Number() for _ in values] if len(values) > 1 else Number()

    def spatial(extent: int, value: Number) -> Number:
        return number(extent, value)

    def buffer(shape: Any, dtype: str = "float32") -> Any:
        return ("T.Buffer", dtype)

    def local(shape: Any, dtype: str = "float32") -> Array:
        return Array(None, defaultdict(set))

    def kernel(**flags: Any) -> Any:
        assert set(flags) <= FLAGS
        return _Kernel

    return SimpleNamespace(
        int64=integer, Buffer=buffer, sblock=block, init=block, reads=stated, writes=stated, grid=_grid,
        func_attr=attributes, sblock_attr=attributes, axis=SimpleNamespace(remap=remap, spatial=spatial),
        prim_func=_Decorator(_Kernel, kernel), float32=number, sblock_alloc_buffer=local, max=number,
        **dict.fromkeys(("tanh", "exp", "cos", "sin", "rsqrt", "erf"), number),
    )  # fmt: skip


class _Kernel:
    """A PrimFunc: a call runs its body on the tensors that it is given."""

    def __init__(self, body: Any) -> None:
        assert all(spec[0] == "T.Buffer" for spec in body.__annotations__.values())
        assert body.__defaults__ is None
        self.body = body

    def __call__(self, *tensors: Tensor) -> None:
        log: dict[str, set[Any]] = defaultdict(set)
        assert not any(tensor.is_killed for tensor in tensors)
        assert self.body(*(Array(tensor, log) for tensor in tensors)) is None
        run = self.body.__globals__["R"].run
        run.called(self.body.__name__, log["writes"], set().union(*(t.places for t in tensors)), _line())
