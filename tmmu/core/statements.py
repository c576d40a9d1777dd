"""Statements, one a line: the elements of text plans and text models (`spec/text-plan.md`).

A line is split into tokens once, by a regular expression without backtracking. A reader takes them from left to right,
and errors name FILE:LINE:COLUMN. A name is a bare token or a JSON string. A name that is a word of the format must be a
string, so that a list of names ends at the next word. spec: X1.1, X1.2, X1.3, X1.4, X1.5
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from itertools import islice
from typing import NamedTuple, TypeVar

from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import UINT64_END, Role

LIMIT = 1 << 28
"""The largest text file that is read, in bytes."""

ARROW = "->"
TOKEN = re.compile(r'(?:"(?:[^"\\]|\\.)*+"|[^ \t"#])++')
GAP = re.compile(r"[^ \t]|$")
Value = TypeVar("Value")
COMPARED = 10_000
"""The most names that an unknown name is compared with."""
LONGEST = 200
"""Longer names are not compared: that takes time quadratic in their length."""
SHOWN = 60
"""How many characters of a wrong first line are shown."""


class Format(NamedTuple):
    """A text format: its first line is `title` and a version; no bare name may be one of `words`.

    Of these, those in `later` came with a later version of the reader: they are bare names in files that declare them.
    """

    title: str
    version: int
    code: str
    words: frozenset[str]
    later: frozenset[str] = frozenset()


class TextLine:
    """The tokens of one line, taken from left to right; `refuse` makes an error that names the place."""

    __slots__ = ("_columns", "_format", "_next", "_tokens", "file", "line")

    def __init__(self, file: str, line: int, text: str, form: Format) -> None:
        self.file, self.line, self._format, self._next = file, line, form, 0
        self._tokens: list[str] = []
        self._columns: list[int] = []
        at = _after_gap(text, 0)
        while at < len(text) and text[at] != "#":
            found = TOKEN.match(text, at)
            if found is None:
                self._columns.append(at + 1)
                raise self.refuse("unterminated JSON string", 'end it with "', len(self._tokens))
            self._tokens.append(found[0])
            self._columns.append(at + 1)
            at = _after_gap(text, found.end())
        self._columns.append(max(1, at + 1))

    def __len__(self) -> int:
        return len(self._tokens)

    @property
    def first(self) -> str:
        """The first word of the line."""
        return self._tokens[0]

    @property
    def declared(self) -> str | None:
        """The name behind the first word, whatever has been taken, or None if no name is there."""
        taken, self._next = self._next, 1
        try:
            return self.name("a name")
        except TmmuError:
            return None
        finally:
            self._next = taken

    @property
    def mark(self) -> int:
        """The place of the next token, for a later `refuse`."""
        return self._next

    def refuse(self, what: str, fix: str | None = None, mark: int | None = None, code: str | None = None) -> TmmuError:
        """Return the error about a token, by default the one taken last."""
        column = self._columns[min(max(0, self._next - 1) if mark is None else mark, len(self._columns) - 1)]
        return TmmuError(code or self._format.code, what, file=f"{self.file}:{self.line}:{column}", fix=fix)

    def peek(self) -> str | None:
        """Return the next token without taking it, None at the end of the line."""
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def take(self, what: str) -> str:
        """Take the next token; `what` describes it in an error."""
        if self._next == len(self._tokens):
            raise self.refuse(f"expected {what}, got the end of the line", None, self._next)
        self._next += 1
        return self._tokens[self._next - 1]

    def at_word(self) -> bool:
        """Whether the next token is a word of the format, or an arrow: names end there."""
        token = self.peek()
        return token == ARROW or token in self._format.words

    def taken(self, word: str) -> bool:
        """Take the next token if it is this bare word, and return whether it was."""
        if self.peek() != word:
            return False
        self._next += 1
        return True

    def expect(self, word: str) -> None:
        """Take this bare word, or refuse."""
        if not self.taken(word):
            raise self.refuse(f"expected {word}, got {self.peek() or 'the end of the line'}", None, self._next)

    def name(self, what: str) -> str:
        """Take the next token as a name: bare, or a JSON string. spec: X1.3"""
        token = self.take(what)
        if token.startswith('"'):
            try:
                found = json.loads(token)
                found.encode()
            except (ValueError, UnicodeEncodeError) as error:
                raise self.refuse(f"expected {what}, got {token}, which is not a valid JSON string") from error
            if not found or "\0" in found:
                raise self.refuse(f"expected {what}, got an empty name or one with a NUL")
            return str(found)
        if ARROW in token or '"' in token or not token.isprintable():
            raise self.refuse(f"expected {what}, got {token}", "write the name as a JSON string")
        if token in self._format.words - self._format.later:
            fix = f'if it is a name, write it as a JSON string: "{token}"'
            raise self.refuse(f"expected {what}, got the word {token}", fix)
        return token

    def row(self, rows: Mapping[str, int], what: str) -> int:
        """Take the next name and return its row; `what` is the word that begins the lines declaring such names."""
        name = self.name(what)
        if name not in rows:
            short = (other for other in islice(rows, COMPARED) if len(other) <= LONGEST)
            close = difflib.get_close_matches(name, short, n=1) if len(name) <= LONGEST else []
            fix = f"did you mean {close[0]}?" if close else f"add one: {what} {format_name(name, self._format)} …"
            raise self.refuse(f"no line declares the {what} {name!r}", fix)
        return rows[name]

    def rows(self, rows: Mapping[str, int], what: str) -> tuple[int, ...]:
        """Take the names up to a word, an arrow or the end of the line, and return their rows."""
        found = []
        while (token := self.peek()) is not None and (
            not self.at_word() or (token in self._format.later and token in rows)
        ):
            found.append(self.row(rows, what))
        return tuple(found)

    def new(self, known: Container[str], what: str) -> str:
        """Take the next name, which must be new. spec: X1.4"""
        name = self.name(f"the name of a {what}")
        if name in known:
            raise self.refuse(f"{what} {name!r} is declared twice", "give each a different name")
        return name

    def last(self, what: str) -> str:
        """Take the next name, which must end the line."""
        found = self.name(what)
        self.end()
        return found

    def pair(self, rows: Mapping[str, int], what: str) -> tuple[int, int]:
        """Take two names, which must end the line, and return their rows."""
        found = self.row(rows, what), self.row(rows, what)
        self.end()
        return found

    def choice(self, values: Mapping[str, Value], what: str) -> Value:
        """Take the next token and return the value that it denotes."""
        token = self.take(what)
        if token not in values:
            raise self.refuse(f"expected {what}, got {token}", f"use one of {', '.join(values)}")
        return values[token]

    def role(self, role: Role | None, word: Role) -> Role:
        """Add one more role word to a tensor's role: `input` beside a kept role lists it among the graph inputs."""
        if role is None or role is Role.INPUT:
            both = role is None or word in (Role.PARAMETER, Role.OPTIMIZER)
            found = word
        else:
            both, found = role in (Role.PARAMETER, Role.OPTIMIZER) and word is Role.INPUT, role
        if not both:
            raise self.refuse(f"it already has the role {role}", "give it one role")
        return found

    def integer(self, what: str, low: int = 0, end: int = UINT64_END) -> int:
        """Take the next token as a decimal integer from `low` up to, but excluding, `end`."""
        token = self.take(what)
        # The number of digits is checked first: Python refuses to read thousands of them.
        if not (token.isascii() and token.isdigit() and len(token) <= 20 and low <= int(token) < end):
            raise self.refuse(f"expected {what} (an integer from {low} to {end - 1}), got {token}")
        return int(token)

    def alignment(self) -> int:
        """Take the next token as a power of two."""
        found = self.integer("an alignment", 1)
        if found & (found - 1):
            raise self.refuse(f"expected a power of two, got {found}")
        return found

    def words(self, allowed: Container[str], repeated: Container[str] = ()) -> Iterator[str]:
        """Yield the words that follow, each at most once except `repeated`; the caller takes the tokens of each."""
        seen: set[str] = set()
        while self.peek() is not None:
            word = self.take("a word")
            if word not in allowed:
                known = ", ".join(sorted(allowed)) if isinstance(allowed, Iterable) else ""
                raise self.refuse(f"unknown word {word}", f"use one of {known}" if known else None)
            if word in seen and word not in repeated:
                raise self.refuse(f"the word {word} occurs twice", "write it once")
            seen.add(word)
            yield word

    def end(self) -> None:
        """Check that the line ends here."""
        if self.peek() is not None:
            raise self.refuse(f"expected the end of the line, got {self.peek()}", None, self._next)


def _after_gap(text: str, at: int) -> int:
    found = GAP.search(text, at)
    return len(text) if found is None else found.start()


def statements(data: bytes, file: str, form: Format) -> Iterator[TextLine]:
    """Yield the statements of a file after its first line, without empty lines and comments.

    O(bytes). spec: X1.1, X1.2
    """
    if len(data) > LIMIT:
        what = f"{len(data)} bytes, more than the limit of {LIMIT} for a text"
        raise TmmuError(form.code, what, file=file, fix="use the binary form")
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError as error:
        before = data[: error.start].split(b"\n")
        at = f"{len(before)}:{len(before[-1]) + 1}"
        raise TmmuError(form.code, "expected UTF-8", file=f"{file}:{at}", fix="save it as UTF-8") from error
    title = f"{form.title} {form.version}"
    found_title = lines[0].split("#")[0].strip(" \t\r")
    if found_title.split() != title.split():
        shown = repr(found_title[:SHOWN]) if found_title else "an empty line"
        raise TmmuError(
            form.code, f"expected the first line {title}, got {shown}", file=f"{file}:1:1", fix="correct it"
        )
    for number, line in enumerate(lines[1:], 2):
        found = TextLine(file, number, line.removesuffix("\r"), form)
        if len(found):
            yield found


def format_name(name: str, form: Format) -> str:
    """Format a name: bare if possible, otherwise as a JSON string. spec: X1.3

    >>> form = Format("t", 1, "INVALID_IR", frozenset({"input"}))
    >>> [format_name(name, form) for name in ("conv.1/out", "a b", "input", "a->b")]
    ['conv.1/out', '"a b"', '"input"', '"a->b"']
    """
    bare = name.isprintable() and not any(c in name for c in ' "#') and ARROW not in name and name not in form.words
    return name if bare and name else json.dumps(name, ensure_ascii=not name.isprintable())


def parse_operator(text: str) -> tuple[str, str]:
    """Split a text into domain and operator: `jax.lax::add`, or `Add` without a domain. spec: X1.5

    >>> parse_operator("Add"), parse_operator("jax.lax::add"), parse_operator("::a::b")
    (('', 'Add'), ('jax.lax', 'add'), ('', 'a::b'))
    """
    domain, colons, op = text.partition("::")
    return (domain, op) if colons else ("", text)


def format_operator(domain: str, op: str) -> str:
    """Format what `parse_operator` parses, for a domain without `::`."""
    return op if not domain and "::" not in op else f"{domain}::{op}"
