#!/bin/sh
# The wheel in dist/ as users have it, from a folder without the sources: the integration tests and every command of
# the README and the tutorials on this Python, and a smoke run on each Python that is named. `make wheel-test` builds
# the wheel and calls this.
set -eu
root=$(pwd)
wheel=$(ls -t "$root"/dist/*.whl | head -1)
python=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_DATA_HOME="$work/data" # the program of the wheel, not one that was built here

smoke() { # PYTHON: install the wheel with its dependencies alone, then plan, prove, refute
  "$1" -m venv "$work/smoke"
  "$work/smoke/bin/python" -m pip install -q --disable-pip-version-check "$wheel"
  (
    cd "$work"
    PATH="$work/smoke/bin:$PATH"
    tmmu example mico-mlp -o m.onnx
    tmmu plan m.onnx -o p.cbor
    verify-plan p.cbor --model m.onnx --require model,slot-count,kernel
    tmmu example broken/in-place-read-later -o broken.cbor
    code=0
    verify-plan broken.cbor || code=$?
    [ "$code" = 1 ] || { echo "the broken plan was not refuted (exit $code)" >&2; exit 1; }
  ) >"$work/out" 2>&1 || { cat "$work/out"; echo "$1: the wheel failed" >&2; exit 1; }
  echo "$1: $("$work/smoke/bin/python" --version): plans, proves and refutes from the wheel"
  rm -rf "$work/smoke"
}

for each in "$@"; do
  command -v "$each" >/dev/null && "$each" --version >/dev/null 2>&1 || { echo "$each is missing: install it, or set PYTHONS=..." >&2; exit 1; }
  smoke "$each"
done

"$python" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install -q --disable-pip-version-check --require-hashes -r .ci/dev.txt
"$work/venv/bin/python" -m pip install -q --disable-pip-version-check --no-deps "$wheel"
mkdir "$work/apart" # all but the packages themselves
git ls-files -z | grep -zv '^tmmu/\|^proofs/' | xargs -0 cp --parents -t "$work/apart"
cd "$work/apart"
PATH="$work/venv/bin:$PATH" HYPOTHESIS_PROFILE="${HYPOTHESIS_PROFILE:-ci}" \
  "$work/venv/bin/pytest" -q -n 2 --dist worksteal -m "not checkout" tests/integration tests/nightly/test_typed_pages.py
