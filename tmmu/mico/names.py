"""The names of the C that its surroundings see: functions, types, macros, kernels, constants and files.

Without a prefix they are MiCo's (`model_init`, `Model`, `kernels.c`), so that one program holds one such model. With a
prefix, each begins with it, and models of different prefixes link into one program. spec: MC10.1, MC10.2
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_HEADERS = """
assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdarg stdbool stddef stdint
stdio stdlib string tgmath threads time uchar wchar wctype
"""
OTHER_FILES = ("kernels", "weights", "main", *_HEADERS.split())
"""The names that the header and the source of `model` must not have: other files of the C, and headers of C."""


@dataclass(frozen=True)
class CNames:
    """The names of the C of one model or one plan set.

    `stem` is the name of the header, the source and the program; `prefix` is empty, or begins every other name too.
    """

    stem: str = "model"
    prefix: str = ""

    def function(self, word: str, program: str = "") -> str:
        """Return the name of a function for the caller; `program` is the label of a member of a plan set.

        >>> CNames("lenet").function("init"), CNames("a", "a").function("init"), CNames("s", "s").function("run", "p")
        ('model_init', 'a_init', 's_p_run')
        """
        return "_".join(filter(None, (self.prefix or "model", program, word)))

    def kind(self, word: str) -> str:
        """Return the name of a type for the caller.

        >>> CNames().kind("model"), CNames("a", "a").kind("model")
        ('Model', 'a_model')
        """
        return f"{self.prefix}_{word}" if self.prefix else word.capitalize()

    def macro(self, word: str, program: str = "") -> str:
        """Return the name of a macro or an enumerator for the caller.

        >>> CNames().macro("INPUTS"), CNames("s", "s").macro("INPUTS", "decode")
        ('MODEL_INPUTS', 'S_DECODE_INPUTS')
        """
        return self.function(word, program).upper()

    def inner(self, word: str) -> str:
        """Return the name of a kernel, of a type of its arguments, or of a constant.

        >>> CNames().inner("relu_f32"), CNames("a", "a").inner("relu_f32")
        ('relu_f32', 'a_relu_f32')
        """
        return f"{self.prefix}_{word}" if self.prefix else word

    def guard(self, word: str = "") -> str:
        """Return the include guard of the header, or that of another header.

        >>> CNames("lenet").guard(), CNames("lenet").guard("kernels")
        ('LENET_H', 'LENET_KERNELS_H')
        """
        return "_".join(filter(None, (self.stem, word, "h"))).upper()

    def file(self, name: str) -> str:
        """Return the name of a file other than the header and the source.

        >>> CNames("lenet").file("kernels.c"), CNames("a", "a").file("kernels.c")
        ('kernels.c', 'a_kernels.c')
        """
        return self.inner(name)


PLAIN = CNames()
"""The names without a prefix."""


def check_name(name: str) -> None:
    """Raise ValueError if a name cannot be that of files and of a program."""
    if re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) is None or name.lower() in OTHER_FILES:
        raise ValueError(
            f"{name!r} cannot be a name: expected letters, digits and underscores, and no header of C, nor kernels, "
            "weights or main"
        )


def check_prefix(prefix: str) -> None:
    """Raise ValueError if a text cannot be a prefix: macros have it in capitals, so it has none. spec: MC10.2"""
    check_name(prefix)
    if re.fullmatch(r"[a-z][a-z0-9_]*[a-z0-9]|[a-z]", prefix) is None:
        raise ValueError(
            f"{prefix!r} cannot be a prefix: expected small letters, digits and underscores, a letter first and no "
            "underscore last"
        )
