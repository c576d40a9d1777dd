"""Makes the pages of the site of those of the repository: which page stands where, and where its links lead.

Links within the site are relative; one to any other file of the repository leads to `extra.sources`, where a code host
shows it, or to the file in the checkout. One that leads nowhere stays as it is, so that MkDocs warns of it.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

import tmmu

ROOT = Path(__file__).resolve().parents[2]
MOVED = {
    "README.md": "index.md",
    "spec/README.md": "specification.md",
    "tla/README.md": "tla.md",
    "proofs/proving/lemmas/README.md": "lemmas.md",
    "tests/README.md": "tests.md",
    ".github/CONTRIBUTING.md": "contributing.md",
    ".github/SECURITY.md": "security.md",
}
"""Pages that do not stand in `spec/` under their own name."""

HOW_TO = ("index.md", "tour.md", "tutorials/", "in-their-ci.md", "printing-a-plan.md")
"""Pages that a search finds first: they tell how to do a thing."""
RECORDS = ("decisions.md", "findings-archive.md", "reports/", "changes.md", "tests.md", "lemmas.md")
"""Pages that a search finds last: they record what was decided and found."""

QUOTED = re.compile(r"^ *(```|~~~).*?^ *\1|`[^`\n]*`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<=\]\()[^)\s#:]+(?=[)#])")


def api() -> str:
    """The reference of `import tmmu`, an entry for each public name but the version."""
    names = [name for name in tmmu.__all__ if not name.startswith("_")]
    entries = (f"::: {getattr(tmmu, name).__module__}.{name}\n" for name in sorted(names, key=str.lower))
    head = "Look up what `import tmmu` has; [the library](library.md) states what its user may rely on."
    return "\n".join(["# API\n", f"{head}\n", *entries])


def source(page: str) -> str:
    """The path in the repository of a page of the site."""
    return next((path for path, name in MOVED.items() if name == page), f"spec/{page}")


def place(path: str) -> str | None:
    """Where the site has a file of the repository, if it has it."""
    return MOVED.get(path) or (path.removeprefix("spec/") if path.startswith("spec/") else None)


def relinked(text: str, page: str) -> str:
    """The text of a page whose links lead to pages of the site, or to `source:` and a path of the repository."""
    folder, here = posixpath.dirname(source(page)), posixpath.dirname(page)

    def target(found: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, found[0]))
        if not (ROOT / path).exists():
            return found[0]
        there = place(path) if (ROOT / path).is_file() else None
        return f"source:{path}" if there is None else posixpath.relpath(there, here or ".")

    parts, end = [], 0
    for quoted in QUOTED.finditer(text):
        parts += [LINK.sub(target, text[end : quoted.start()]), quoted[0]]
        end = quoted.end()
    return "".join([*parts, LINK.sub(target, text[end:])])


def on_files(files: Files, config: Any) -> Files:
    """Add what stands outside `spec/` or has another name here, the reference, and what pages are shown with."""
    files.remove(files.src_uris["README.md"])
    for path, name in MOVED.items():
        files.append(File.generated(config, name, abs_src_path=str(ROOT / path)))
    files.append(File.generated(config, "api.md", content=api()))
    for asset in sorted((Path(__file__).parent / "assets").iterdir()):
        files.append(File.generated(config, f"assets/{asset.name}", abs_src_path=str(asset)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:
    """See `relinked`; and rank the page in the search."""
    name = page.file.src_uri
    page.meta["search"] = {"boost": 8 if name.startswith(HOW_TO) else 0.25 if name.startswith(RECORDS) else 1}
    return relinked(markdown, page.file.src_uri)


def on_page_content(html: str, page: Any, config: Any, **_: object) -> str:
    """Lead links to sources where they are shown."""
    up = "../" * (1 + page.file.dest_uri.count("/"))
    sources = config.extra["sources"]
    return html.replace('href="source:', f'href="{sources.rstrip("/") + "/" if sources else up}')
