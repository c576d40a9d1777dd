"""The outermost layer of the commands: no crash may look like a verdict (C1.1).

Every end of a command other than its own answer goes through `explain`, which gives each kind an exit code: 2 for the
command line, 4 for a refusal, 130 for an interruption, 70 for everything unexpected. spec: C1.1, C1.7, RE3.7, RE5.3
"""

from __future__ import annotations

import contextlib
import errno
import gc
import importlib
import io
import os
import re
import sys
import traceback
from collections.abc import Callable
from types import ModuleType
from typing import NoReturn

from tmmu.core import children, folders

INTERNAL = 70
"""The exit code of an internal error."""
WORST_FIRST = (INTERNAL, 1, 2, 4, 3, 0)
"""The exit code of several files with different ones: the first of these that occurred. spec: C1.2, C5.7"""
REFUSED = 4
"""The exit code if a file cannot be read, planned or written."""
OF_THE_COMMAND_LINE = ("INVALID_BINDING", "INVALID_SETTING", "INVALID_KEY", "MISSING_PACKAGE")
"""The failure codes with the exit code 2: they are about options and the environment, not about a model or plan."""
INTERRUPTED = 130
"""The exit code of a command that the user has interrupted, as in shells."""


def run_command(module: str, arguments: list[str] | None = None, name: str | None = None) -> int:
    """Run one command line of the command in `module`, and return its exit code. `name` is the command's in its help.

    The module is imported here, so that its import errors are caught too.
    """
    try:
        code = int(load_module(module).command.main(arguments, prog_name=name, standalone_mode=False) or 0)
        print(end="", flush=True)
        return code
    except BaseException as error:  # everything else, keyboard interrupts included, is no verdict and no success
        return explain(error)


def load_module(name: str) -> ModuleType:
    """Import a module of a command, and what that imports. No collection of garbage looks at it, then or later.

    What is imported stays, so that collections would only take time: a tenth of that of the imports.
    """
    if name in sys.modules:
        return sys.modules[name]
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return importlib.import_module(name)
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


def begin() -> None:
    """Prepare the process of a command: its environment and its streams. spec: RE1.1, RE1.2"""
    folders.clean_environment()
    children.end_at_interrupt()
    make_printable()


def make_printable() -> None:
    """Print characters that the terminal cannot show as escapes, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def exit_now(code: int) -> NoReturn:
    """Flush and exit with `code`: if the output cannot be written, Python would exit with another code."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            if stream is not None:
                stream.flush()
    os._exit(code)


def print_error(line: str) -> None:
    """Print to the standard error, if it exists and accepts the line."""
    with contextlib.suppress(OSError, ValueError):
        if sys.stderr is not None:
            print(line, file=sys.stderr)


def explain(error: BaseException) -> int:
    """Print one line for an error that the user can fix, a traceback for any other; return the exit code."""
    try:
        import click

        from tmmu.core.errors import TmmuError

        if isinstance(error, click.exceptions.Exit):
            return error.exit_code
        if isinstance(error, click.UsageError):
            message = error.format_message()  # the help text has several lines
            print_error(message if "\n" in message else f"error: {message} (--help lists the options)")
            return 2
        if isinstance(error, TmmuError):
            print_error(f"error: {error}")
            return 2 if error.code_id in OF_THE_COMMAND_LINE else REFUSED
        if isinstance(error, (click.Abort, KeyboardInterrupt)):
            print_error("interrupted")
            return INTERRUPTED
    except ImportError:
        pass
    if isinstance(error, SystemExit) and any(re.fullmatch(r"_[A-Z_]+_COMPLETE", name) for name in os.environ):
        return 0 if error.code in (0, None) else INTERNAL  # the shell has its completions
    if is_closed_output(error):  # as by `| head` once it has its lines: not worth a message
        return INTERNAL
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG, errno.EROFS):
        if error.filename is None:
            print_error(f"error: the output cannot be written ({error.strerror})")
            return INTERNAL
        file = repr(error.filename)[1:-1]
        print_error(f"error: {file}: cannot be written ({error.strerror}); make room, or choose another place")
        return REFUSED
    if isinstance(error, OSError) and isinstance(error.filename, (str, bytes)):  # it changed meanwhile
        print_error(f"error: {os.fsdecode(error.filename)!r}: {error.strerror}")
        return REFUSED
    note_unexpected(error)
    print_error("".join(traceback.format_exception(error)) + "internal error: this is a bug, and no verdict")
    return INTERNAL


OBSERVERS: list[Callable[[BaseException], None]] = []
"""Called with each unexpected exception. Fuzzing counts each as a finding."""


def note_unexpected(error: BaseException) -> None:
    """Report an unexpected exception to the observers, wherever it is caught. spec: RE6.1"""
    for observe in OBSERVERS:
        observe(error)


def is_closed_output(error: BaseException) -> bool:
    """Return whether the output was closed. (Click exits with 1 on a closed pipe, which would look like a verdict.)"""
    return isinstance(error, (BrokenPipeError, SystemExit))
