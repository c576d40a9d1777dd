"""How the kernel is built and installed, with programs in the place of those of Coq and OCaml.

spec: V6.3
"""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from proofs.proving.kernel import install, installed
from tests.support.commands import program
from tmmu.core.reading import digest_file

ROOT = Path(__file__).resolve().parents[2]

COQC = """PATH=/usr/bin:/bin
for file in "$@"; do :; done
echo "$PWD coqc $*" >> {log}
case $file in
  Extract.v) touch checker.mli checker.ml;;
  *) touch "${{file%.v}}.vo"; [ $file = Theorems.v ] && printf '{said}\\n';;
esac
[ $file != {failing} ] || {{ echo "Error: it does not hold"; exit 1; }}
"""
OCAMLFIND = """PATH=/usr/bin:/bin
echo "$PWD ocamlfind $*" >> {log}
echo "noise of ocamlfind"
case $1 in
  query) exit {without_zarith};;
  ocamlopt) [ -f checker.ml ] && [ -f main.ml ] && touch kernel && chmod 755 kernel;;
esac
"""
CLOSED = "Closed under the global context"
ASSUMED = "Ax" + "ioms:"  # in two, since no proof here may say so


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Puts programs into the path, which holds nothing else; what is installed goes below `tmp_path`."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    def made(said: str = CLOSED, failing: str = "none", without_zarith: int = 0) -> None:
        values = {"said": said, "failing": failing, "without_zarith": without_zarith, "log": tmp_path / "log"}
        program(tmp_path / "bin" / "coqc", COQC.format(**values))
        program(tmp_path / "bin" / "ocamlfind", OCAMLFIND.format(**values))
        for name in ("coqchk", "ocamlopt"):
            program(tmp_path / "bin" / name, "exit 0")

    return made


def files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_theory_program_and_what_coq_says_of_assumptions_are_installed_together(
    tools: Callable[..., None], capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    tools()
    whole = installed.folder()
    whole.parent.mkdir(parents=True)  # there may be kernels of other sources
    assert install.main() == 0
    theory = {f"theory/{name}{end}" for name in installed.ORDER for end in (".v", ".vo")}
    assert files(whole) == theory | {"kernel", "kernel.json", "libraries.json", "assumptions.txt"}
    assert (whole / "assumptions.txt").read_text() == f"{CLOSED}\n"
    assert list(whole.parent.iterdir()) == [whole]
    assert re.fullmatch(rf"the kernel is installed in {whole} \(\d+ s\)\n", capfd.readouterr().out)
    compiled = [line.split()[-1] for line in (tmp_path / "log").read_text().splitlines() if " coqc " in line]
    assert compiled == [*(f"{name}.v" for name in installed.ORDER), "Extract.v"]


@pytest.mark.parametrize("said", ["", ASSUMED, f"{CLOSED}\\n{ASSUMED}\\nmagic : False"])
def test_a_theorem_that_rests_on_assumptions_is_not_installed(tools: Callable[..., None], said: str) -> None:
    tools(said)
    with pytest.raises(SystemExit, match="the theorem rests on assumptions:"):
        install.main()
    assert list(installed.folder().parent.iterdir()) == []


@pytest.mark.parametrize("failing", ["Lists.v", "Extract.v"])
def test_what_does_not_compile_is_shown_and_not_installed(tools: Callable[..., None], failing: str) -> None:
    tools(failing=failing)
    with pytest.raises(SystemExit, match=f"^coqc .*{failing} failed:\nError: it does not hold\n"):
        install.main()
    assert not installed.folder().exists()


def test_who_builds_at_the_same_time_does_no_harm(
    tools: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A folder is there when it is to be renamed: it is another's, and whole, or the error is told."""
    tools()

    def build(whole: Path) -> None:
        whole.mkdir()
        (whole / "mine").touch()
        installed.folder().mkdir()
        (installed.folder() / "kernel").touch(0o755)
        built = installed.KernelBuild(installed.digest(), digest_file(installed.folder() / "kernel"), "0" * 64)
        (installed.folder() / "kernel.json").write_text(json.dumps(built._asdict()))
        (installed.folder() / "libraries.json").touch()

    monkeypatch.setattr(install, "build", build)
    assert install.main() == 0
    assert files(installed.folder()) == {"kernel", "kernel.json", "libraries.json"}


def test_a_folder_that_cannot_be_replaced_is_an_error(
    tools: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process puts half a folder in the place, just as this one is to be renamed."""
    tools()
    rename = os.rename

    def meets(source: str | Path, target: str | Path) -> None:
        if Path(target) == installed.folder():
            Path(target).mkdir(exist_ok=True)
            (Path(target) / "half").touch()
        rename(source, target)

    monkeypatch.setattr(install.os, "rename", meets)
    with pytest.raises(OSError, match="not empty"):
        install.main()


@pytest.mark.parametrize("damage", ["changed", "not recorded", "not executable"])
def test_a_damaged_program_is_built_again(tools: Callable[..., None], damage: str, tmp_path: Path) -> None:
    """And what was in its folder is gone. spec: V6.11"""
    tools()
    assert install.main() == 0
    whole = installed.folder()
    right = files(whole)
    os.chmod(whole / "kernel", 0o644 if damage == "not executable" else 0o755)
    if damage == "changed":
        (whole / "kernel").write_text("tampered")
    if damage == "not recorded":
        (whole / "kernel.json").unlink()
    (whole / "left").touch()
    (tmp_path / "log").unlink()
    assert install.main() == 0
    assert (files(whole), installed.refusal()) == (right, None)
    assert (tmp_path / "log").exists()
    assert list(whole.parent.iterdir()) == [whole]


# What is missing.

COMMAND = "apt-get install -y --no-install-recommends coq libzarith-ocaml-dev ocaml-findlib ocaml-nox"


@pytest.mark.parametrize("missing", ["coqc", "coqchk", "ocamlfind", "ocamlopt", "zarith"])
def test_whoever_may_not_install_is_told_what(
    tools: Callable[..., None], missing: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:  # fmt: skip
    tools(without_zarith=int(missing == "zarith"))
    (tmp_path / "bin" / missing).unlink(missing_ok=True)
    program(tmp_path / "bin" / "apt-get", "exit 0")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert install.main() == 1
    monkeypatch.delattr(os, "geteuid")  # where the system has no root
    assert install.main() == 1
    monkeypatch.setattr(os, "geteuid", lambda: 0, raising=False)
    (tmp_path / "bin" / "apt-get").unlink()
    assert install.main() == 1
    assert capsys.readouterr().err == 3 * f"Coq and OCaml are needed: sudo {COMMAND}\n"


@pytest.mark.checkout
def test_the_module_can_be_run_before_anything_is_installed(
    tools: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tools()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for code in (0, 1):
        monkeypatch.delitem(sys.modules, "proofs.proving.kernel.install", raising=False)
        with pytest.raises(SystemExit) as ended:
            runpy.run_module("proofs.proving.kernel.install", run_name="__main__")
        assert ended.value.code == code
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "more"))
        (tmp_path / "bin" / "coqc").unlink(missing_ok=True)


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)


@pytest.mark.usefixtures("root")
def test_root_has_what_is_missing_installed_without_being_asked(
    tools: Callable[..., None], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    tools()
    (tmp_path / "bin" / "coqc").rename(tmp_path / "coqc")
    installs = (
        f'echo "$DEBIAN_FRONTEND $*" >> {tmp_path}/asked; [ $1 = update ] || /bin/cp {tmp_path}/coqc {tmp_path}/bin'
    )
    program(tmp_path / "bin" / "apt-get", installs)
    assert install.main() == 0
    assert (installed.folder() / installed.PROGRAM).exists()
    asked = ["noninteractive update -q", f"noninteractive {COMMAND.removeprefix('apt-get ')}"]
    assert (tmp_path / "asked").read_text().splitlines() == asked
    assert capsys.readouterr().out.startswith("installing coq, libzarith-ocaml-dev, ocaml-findlib, ocaml-nox\n")


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo no route >&2; exit 100", "apt-get update -q failed: no route\n"),
        ("[ $1 = update ] || { echo no such package; exit 100; }", f"{COMMAND} failed: no such package\n"),
        ("exit 0", ""),  # it says that all is well, and what is missing is not there
    ],
)
@pytest.mark.parametrize("missing", ["coqc", "zarith"])
def test_what_cannot_be_installed_is_told(
    tools: Callable[..., None], missing: str, script: str, said: str, capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:  # fmt: skip
    tools(without_zarith=int(missing == "zarith"))
    (tmp_path / "bin" / missing).unlink(missing_ok=True)
    program(tmp_path / "bin" / "apt-get", script)
    assert install.main() == 1
    assert capsys.readouterr().err == said
    assert not installed.folder().exists()


@pytest.mark.usefixtures("root")
def test_what_takes_long_is_announced(
    tools: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also where the output is a file or a pipe, which are given what is printed only in large pieces."""
    tools()
    (tmp_path / "bin" / "coqc").unlink()
    program(tmp_path / "bin" / "apt-get", f"exec /bin/cp {tmp_path}/said {tmp_path}/said_by_then")
    with (tmp_path / "said").open("w") as output:
        monkeypatch.setattr(sys, "stdout", output)
        assert install.main() == 1
    assert (tmp_path / "said_by_then").read_text().startswith("installing coq, ")


@pytest.mark.checkout
def test_the_tests_that_need_it_are_left_out_by_name(tmp_path: Path) -> None:
    away = {**os.environ, "XDG_DATA_HOME": str(tmp_path)}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:xdist",
        "-p",
        "no:cacheprovider",
        "tests/integration/kernel",
    ]
    done = subprocess.run(command, cwd=ROOT, env=away, capture_output=True, text=True, check=False)
    named = {line.split()[2] for line in done.stdout.splitlines() if line.startswith("LEFT OUT: tests/")}
    assert named == {
        f"tests/integration/kernel/{path.name}" for path in (ROOT / "tests/integration/kernel").glob("test_*.py")
    }
