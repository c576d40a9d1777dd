"""Every command of the project, with the words that call it."""

from __future__ import annotations

from collections.abc import Iterator

import click

from proofs.model_check.command import command as check_models
from proofs.proving.lemmas.command import command as prove_lemmas
from proofs.verify.command import command as verify_plan
from tmmu.cli.commands import tmmu


def leaves(command: click.Command, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """The commands below one, or it itself."""
    if not isinstance(command, click.Group):
        yield words, command
        return
    with click.Context(command) as context:
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from leaves(below, (*words, name))


def every_command() -> dict[str, click.Command]:
    """All commands that do something, by the words that call them."""
    tops = {"tmmu": tmmu, "verify-plan": verify_plan, "prove-lemmas": prove_lemmas, "check-models": check_models}
    return {" ".join(words): found for name, top in tops.items() for words, found in leaves(top, (name,))}


def context_of(words: str, command: click.Command) -> click.Context:
    """The context in which a command's help is made, in wide lines."""
    parent = click.Context(tmmu, info_name=words.rpartition(" ")[0], **tmmu.context_settings)
    context = command.make_context(words.split()[-1], [], parent, resilient_parsing=True, **command.context_settings)
    context.max_content_width = context.terminal_width = 400
    return context


def examples_of(command: click.Command) -> list[str]:
    """The command lines at the end of a help text."""
    return [line.strip() for line in (command.epilog or "").splitlines() if line.startswith("  ")]
