"""Types and defaults of parameters that a docstring describes together: griffe gives all of them those of the first."""

from __future__ import annotations

from typing import Any

import griffe


class Parameters(griffe.Extension):
    """Takes them from the signature."""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Each parameter of each function that has a docstring."""
        for section in func.docstring.parsed if func.docstring else ():
            if section.kind is griffe.DocstringSectionKind.parameters:
                for parameter in section.value:
                    if parameter.name in func.parameters:
                        stated = func.parameters[parameter.name]
                        parameter.annotation, parameter.value = stated.annotation, stated.default
