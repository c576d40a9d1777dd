"""Which libraries a wheel with the kernel's program contains, and what it states of them. spec: V6.12"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from proofs.proving.kernel import libraries
from proofs.proving.kernel.libraries import LinkedLibrary
from tests.support.commands import program

MAP = """Archive member included to satisfy reference by file (symbol)

/usr/lib/libgmp.a(mul.o)      /usr/lib/libzarith.a(z.o) (__gmpz_mul)
/usr/lib/libzarith.a(z.o)     main.o (ml_z_mul)

Memory Configuration

LOAD /usr/lib/crt1.o
LOAD main.o
LOAD /usr/lib/libzarith.a
LOAD /usr/lib/libgmp.a
LOAD /usr/lib/libmvec.a
"""
GMP = LinkedLibrary("libgmp-dev", "2:6.2", "gmp", "2:6.2")
OCAML = LinkedLibrary("ocaml", "4.13", "ocaml", "4.13")
DPKG = """PATH=/usr/bin:/bin
case "$1 $2" in
  "-S {folder}/libgmp.a") echo "libgmp-dev:amd64: $2";;
  "-S {folder}/shared.o") echo "one, other: $2";;
  "-S {folder}/odd.o") echo "odd: $2";;
  "-W -f") case $4 in odd) printf 'odd\\t1\\todd\\t1';; *) printf 'libgmp-dev\\t2:6.2\\tgmp\\t2:6.2';; esac;;
  *) exit 1;;
esac
"""


def test_an_archive_of_which_no_member_is_needed_is_not_linked() -> None:
    found = libraries.read_map(MAP)
    assert found == {Path(name) for name in ("/usr/lib/libgmp.a", "/usr/lib/libzarith.a", "/usr/lib/crt1.o", "main.o")}


@pytest.mark.parametrize(
    ("old", "new", "refusal"),
    [
        ("Memory Configuration", "Something", "no part"),
        ("libmvec.a", "libmvec.so.1", "libmvec.so.1 is a shared library"),
    ],
)
def test_a_map_that_leaves_something_open_is_refused(old: str, new: str, refusal: str) -> None:
    with pytest.raises(ValueError, match=refusal):
        libraries.read_map(MAP.replace(old, new))


def test_each_linked_file_is_from_a_package_with_a_known_licence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or from this build. A file of no package, of two, or of one whose licence is not known is refused."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    own = tmp_path / "build"
    with pytest.raises(ValueError, match="dpkg-query is missing"):
        libraries.find_libraries([], [own])
    program(tmp_path / "bin" / "dpkg-query", DPKG.format(folder=tmp_path))
    assert libraries.find_libraries([tmp_path / "libgmp.a", own / "main.o"], [own]) == [GMP]
    for name, refusal in (
        ("none.o", "no package"),
        ("shared.o", "of several"),
        ("odd.o", "licence of odd is not known"),
    ):
        with pytest.raises(ValueError, match=refusal):
            libraries.find_libraries([tmp_path / name], [own])


def test_the_record_has_every_licence_text_or_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that a package's text only names."""
    monkeypatch.setattr(libraries, "DOCUMENTS", tmp_path / "doc")
    monkeypatch.setattr(libraries, "TEXTS", tmp_path / "texts")
    with pytest.raises(ValueError, match=r"a licence text is missing: .*libgmp-dev/copyright"):
        libraries.write_record(_folder(tmp_path / "first"), [GMP])
    (_folder(tmp_path / "doc" / "libgmp-dev") / "copyright").write_text(f"See {tmp_path}/texts/LGPL-3.")
    with pytest.raises(ValueError, match=r"a licence text is missing: .*LGPL-3"):
        libraries.write_record(_folder(tmp_path / "second"), [GMP])
    (_folder(tmp_path / "texts") / "LGPL-3").write_text("the text")
    whole = _folder(tmp_path / "third")
    libraries.write_record(whole, [GMP])
    assert (whole / "licences" / "LGPL-3.txt").read_text() == "the text"
    assert "- gmp 2:6.2: LGPL-3.0-or-later OR GPL-2.0-or-later\n" in (whole / "NOTICE").read_text()
    assert libraries.read_record(whole) == [GMP]


def _folder(path: Path) -> Path:
    path.mkdir(parents=True)
    return path


@pytest.mark.parametrize("text", ["", "[1]", '{"x": 1}', '[{"package": "a"}]', '{"unknown": "no dpkg"}'])
def test_a_record_that_names_no_libraries_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / libraries.RECORD).write_text(text)
    with pytest.raises(
        ValueError, match="no dpkg" if "unknown" in text else "is not a record of libraries|Expecting value"
    ):
        libraries.read_record(tmp_path)


def test_a_wheel_states_the_licence_and_the_version_of_each_library() -> None:
    terms = "Apache-2.0 AND LGPL-2.1-only WITH OCaml-LGPL-linking-exception AND (LGPL-3.0-or-later OR GPL-2.0-or-later)"
    assert libraries.licence_of([OCAML, GMP]) == terms
    assert libraries.licence_of([]) == "Apache-2.0"
    document = libraries.build_document("1.0", "ab" * 32, [GMP, OCAML])
    assert [(part["name"], part["version"]) for part in document["components"]] == [
        ("kernel", "1.0"), ("gmp", "2:6.2"), ("ocaml", "4.13"),
    ]  # fmt: skip
    known = {part["bom-ref"] for part in document["components"]} | {document["metadata"]["component"]["bom-ref"]}
    assert {ref for entry in document["dependencies"] for ref in (entry["ref"], *entry["dependsOn"])} == known
    assert json.dumps(document) == json.dumps(libraries.build_document("1.0", "ab" * 32, [GMP, OCAML]))
