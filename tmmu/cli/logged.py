"""Print the warnings that a package logs in the form of errors of commands."""

from __future__ import annotations

import logging

from tmmu.core.output import print_lines


class _Printed(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        print_lines(f"{record.levelname.lower()}: {record.getMessage()}", err=True)


def print_warnings(package: str) -> None:
    """Print the warnings that this package logs from now on, each as a line on the standard error."""
    logger = logging.getLogger(package)
    if not logger.handlers:
        logger.addHandler(_Printed())
