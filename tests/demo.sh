#!/bin/sh
# What `make demo` shows: real architectures planned and proved, and a wrong plan refuted with its witness.
# The files stay in the folder given as the first argument.
set -eu
out=${1:-demo}
mkdir -p "$out"
for spec in "gpt2 --dim batch=1 --dim seq=1024" "resnet50 --dim batch=2" "unet --dim batch=1" "llama-block --dim batch=1 --dim seq=512"; do
  set -- $spec
  model=$1
  shift
  tmmu example "$model" -o "$out/$model.onnx"
  tmmu plan "$out/$model.onnx" -o "$out/$model.plan.cbor" "$@"
  verify-plan "$out/$model.plan.cbor" --model "$out/$model.onnx" --require model,slot-count
  echo
done
tmmu show "$out/gpt2.plan.cbor"
echo
echo "the map of gpt2, for a browser:"
tmmu report "$out/gpt2.plan.cbor" --model "$out/gpt2.onnx" -o "$out/gpt2.html"
echo
# A wrong plan: a result takes the place of an operand that is read later. The verifier must refute it.
tmmu example broken/in-place-read-later -o "$out/broken.plan.cbor"
code=0
verify-plan "$out/broken.plan.cbor" --report "$out/broken.html" || code=$?
if [ "$code" != 1 ]; then
  echo "the broken plan was not refuted (exit $code)" >&2
  exit 1
fi
