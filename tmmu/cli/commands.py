"""The tmmu command: a table of commands, each in the module of its name and imported when it is asked for.

`tmmu --version` and one command's work therefore load no other command. spec: C2.1, C2.6
"""

from __future__ import annotations

from keyword import iskeyword

import click

from tmmu.core.flags import SETTINGS
from tmmu.core.output import suggest_names
from tmmu.core.process import load_module

COMMANDS = (
    "apply", "check-planner", "checkpoint", "codegen", "compare", "diff", "example", "explain", "export", "import",
    "kernel", "mico", "mnemosyne", "plan", "replan", "report", "restore", "run", "session", "show", "survey", "trace",
    "verify",
)  # fmt: skip
"""The names of the commands; `tmmu.cli.NAME` holds the command as NAME, `import_` the one named `import`.

A hyphen is an underscore in the module.
"""


class LazyGroup(click.Group):
    """A group whose commands are imported by name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names in the order of the help text."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, or None."""
        if cmd_name not in COMMANDS:
            return None
        name = f"{cmd_name}_" if iskeyword(cmd_name) else cmd_name.replace("-", "_")
        found = getattr(load_module(f"tmmu.cli.{name}"), name)
        assert isinstance(found, click.Command)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command of the first argument. UsageError with the nearest names for one that there is not."""
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            hint = suggest_names(args[0], COMMANDS, f"the commands are {', '.join(COMMANDS)}")
            raise click.UsageError(f"there is no command {args[0]!r}; {hint}", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=LazyGroup, context_settings=SETTINGS)
@click.version_option(package_name="tmmu")
def tmmu() -> None:
    """Plan the memory of machine-learning models. `verify-plan` proves the plans."""
