"""Conversations as prompts, by the chat template of a GGUF file: a text of the language Jinja.

The template is untrusted: the sandbox of the package jinja2 (extra `foundry`) renders it, without access to files,
modules or private attributes. The text of a message must not contain a control token, because the rendered prompt is
read with control tokens, and a message could otherwise end itself and begin another. spec: FD11.7, FD11.8
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from tmmu.core.errors import TmmuError
from tmmu.core.extras import require_import
from tmmu.foundry.tokenizer import PromptTokenizer
from tmmu.foundry.weights import GgufFile

KEY = "tokenizer.chat_template"
"""The key of the template."""

Message = Mapping[str, str]
"""A message: its `role` (system, user or assistant) and its `content`."""


class ChatTemplate:
    """The chat template of a file, with its vocabulary.

    Parameters
    ----------
    file, tokenizer
        The file and its vocabulary.
    text
        Another template, which is used instead of the file's.

    Raises
    ------
    TmmuError
        INVALID_WEIGHTS if there is no template, or one that Jinja cannot read; MISSING_PACKAGE if jinja2 is not
        installed.
    """

    def __init__(self, file: GgufFile, tokenizer: PromptTokenizer, text: str | None = None) -> None:
        self._file, self.tokenizer = file, tokenizer
        self._fix = "give a template with --template FILE, or use tmmu session run"
        source = file.metadata.get(KEY) if text is None else text
        if not isinstance(source, str):
            file.refuse("the file has no chat template" if source is None else "it is not a text", KEY, self._fix)
        with require_import("jinja2", "a chat template", "foundry"):
            import jinja2
            from jinja2.sandbox import ImmutableSandboxedEnvironment
        self._failure = jinja2.TemplateError
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.filters["tojson"] = _write_json
        environment.globals |= {"raise_exception": self._raise, "strftime_now": _format_now}
        try:
            self._template = environment.from_string(source)
        except self._failure as error:
            file.refuse(f"Jinja cannot read the template: {error}", KEY, self._fix)

    def render(self, messages: Sequence[Message]) -> str:
        """Return a conversation as a prompt that ends where the assistant's answer begins.

        Raises INVALID_WEIGHTS if the template refuses the conversation or fails.
        """
        names = {name: self.tokenizer.special_piece(name) for name in ("bos", "eos", "unknown")}
        given = {"bos_token": names["bos"], "eos_token": names["eos"], "unk_token": names["unknown"]}
        try:
            return str(self._template.render(messages=list(messages), add_generation_prompt=True, **given))
        except self._failure as error:
            self._file.refuse(f"the template refuses the conversation: {error}", KEY, self._fix)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            self._file.refuse(f"the template fails: {error}", KEY, self._fix)

    def encode(self, messages: Sequence[Message]) -> list[int]:
        """Return the tokens of a conversation, control tokens included.

        Raises as `render` does, and INVALID_BINDING if a message contains the text of a control token.
        """
        for message in messages:
            check_content(self.tokenizer, message)
        return self.tokenizer.encode(self.render(messages), has_controls=True)

    def _raise(self, text: str) -> NoReturn:
        raise self._failure(text)


def check_content(tokenizer: PromptTokenizer, message: Message) -> None:
    """Raise INVALID_BINDING if a message contains the text of a control token. spec: FD11.8"""
    found = tokenizer.find_control(message["content"])
    if found is not None:
        raise TmmuError(
            "INVALID_BINDING", f"it contains {found!r}, the text of a control token",
            place=f"the message of {message['role']}", fix="write it in another way, as with a space in it", binding="",
        )  # fmt: skip


def count_common(text: Iterable[int], other: Iterable[int]) -> int:
    """Return the number of tokens with which both begin.

    >>> count_common([1, 2, 3], [1, 2, 4, 5])
    2
    """
    count = 0
    for one, two in zip(text, other, strict=False):
        if one != two:
            break
        count += 1
    return count


def _write_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _format_now(form: str) -> str:
    return datetime.datetime.now().strftime(form)
