"""The option `--effort` of commands that search: looks, such as 1e9, or seconds, such as 10s. spec: A8.8, A8.12"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import click

from tmmu.core.output import print_lines
from tmmu.core.vocabulary import EFFORT_END

NUMBER = re.compile(r"(?P<count>[0-9]{1,20}(?:\.[0-9]{1,20})?(?:e[0-9]{1,2})?)(?P<seconds>s?)", re.ASCII)


class LookCount(click.ParamType[int]):
    """A number of looks: an integer, which may have an exponent, or the looks of a number of seconds of CPU time."""

    name = "looks"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number. Looks of seconds are measured and printed. Raises BadParameter for anything else."""
        if isinstance(value, int):
            return value
        found = NUMBER.fullmatch(value)
        count = Fraction(found["count"]) if found else Fraction(-1)
        if found and found["seconds"]:
            from tmmu.tasks.calibration import measure_rate

            count = Fraction(int(count * measure_rate()))
            print_lines(f"--effort {value}: on this machine as many seconds are --effort {count}", err=True)
        if count.denominator != 1 or not 0 <= count < EFFORT_END:
            self.fail(f"expected looks such as 1e9, below 2^62, or seconds such as 10s, got {value!r}", param, ctx)
        return int(count)
