"""A terminal that a test looks at."""

from __future__ import annotations

import io


class Terminal(io.TextIOWrapper):
    """A stream that counts as a terminal, and what was written to it."""

    def __init__(self) -> None:
        self.written = io.BytesIO()
        super().__init__(self.written, "utf-8", write_through=True)

    def isatty(self) -> bool:
        """It is one."""
        return True

    @property
    def text(self) -> str:
        """What was written so far."""
        return self.written.getvalue().decode()

    @property
    def lines(self) -> list[str]:
        """The lines that can be seen, where `ESC[2K` wipes one, `ESC[1A` goes one up, and colours are no characters."""
        shown, row = [""], 0
        text = self.text
        while text:
            if text.startswith("\x1b["):
                end = next(k for k, c in enumerate(text[2:], 2) if c.isalpha())
                code, text = text[2 : end + 1], text[end + 1 :]
                if code == "2K":
                    shown[row] = ""
                elif code.endswith("A"):
                    row -= int(code[:-1])
                continue
            if text[0] == "\n":
                row += 1
                shown += [""] * (row == len(shown))
            elif text[0] == "\r":
                # What follows writes over the line.
                pass
            else:
                shown[row] += text[0]
            text = text[1:]
        return shown
