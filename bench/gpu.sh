#!/usr/bin/env bash
# One call on a machine with a GPU, in less than ten minutes: products of matrices by Athanor's kernels beside the vendor's
# library, and training steps beside PyTorch. Needs a build (build/release) and, for PyTorch's side, a Python with it; no
# network.
#
#   bench/gpu.sh [--device cuda:0] [--out build/gpu-report] [--seconds 560] [--tiny]
#
# Writes OUT/report.md, report.json and the output of each part. The report names what could not be run, with the reason.
# --tiny: small problems and one small model, to try the script itself (on a virtual GPU, PoCL or the CPU).
# Python: $ATHANOR_COMPARE_PYTHON, or the python3 of PATH.
set -uo pipefail
cd "$(dirname "$0")/.."
device=cuda:0 out=build/gpu-report seconds=560 tiny=0
while [ $# -gt 0 ]; do
  case $1 in
    --device) device=$2; shift 2 ;;
    --out) out=$2; shift 2 ;;
    --seconds) seconds=$2; shift 2 ;;
    --tiny) tiny=1; shift ;;
    *) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 2 ;;
  esac
done
mkdir -p "$out" || exit 1
out=$(cd "$out" && pwd)
rm -f "$out"/*.json "$out"/*.log "$out"/*.md "$out"/failed
python=${ATHANOR_COMPARE_PYTHON:-$(command -v python3)}
[ -n "$python" ] || { echo "bench/gpu.sh: there is no python3 in PATH, which writes the report" >&2; exit 1; }
export ATHANOR_COMPARE_PYTHON=$python ATHANOR_CACHE=$out/cache
# Athanor's library, wherever the build was copied to; and NVRTC, cuBLASLt and cuDNN that came with PyTorch.
export LD_LIBRARY_PATH="$PWD/build/release${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export PATH="$(dirname "$python"):$PATH"
threads=$(nproc)
left() { echo $((seconds - SECONDS)); }
failed() { echo "$1"$'\t'"$2" >>"$out/failed"; echo "NOT RUN: $1: $2"; }

# part NAME LIMIT COMMAND...: its output goes to OUT/NAME.log; a failure goes into the report.
part() {
  local name=$1 limit=$2
  shift 2
  [ "$(left)" -gt 5 ] || { failed "$name" "no time was left"; return 1; }
  [ "$limit" -le "$(left)" ] || limit=$(left)
  echo "== $name (at most $limit s)"
  timeout "$limit" "$@" >"$out/$name.log" 2>&1
  local code=$?
  tail -n 25 "$out/$name.log"
  [ $code = 0 ] && return 0
  local last
  last=$(grep -v '^[[:space:]]*$' "$out/$name.log" | tail -n 1 | cut -c 1-300)
  case $code in
    124) failed "$name" "it did not end within $limit s" ;;
    129 | 1[3-9]?) failed "$name" "signal $((code - 128)) ended it after: $last" ;;
    *) failed "$name" "$last" ;;
  esac
  return 1
}

for program in athanor bench/compare_products bench/compare_step; do
  [ -x "build/release/$program" ] || { failed build "build/release/$program is missing: cmake --preset release && cmake --build --preset release"; }
  missing=$(ldd "build/release/$program" 2>/dev/null | sed -n 's/ => not found//p' | tr -d '\t' | paste -sd ' ')
  [ -z "$missing" ] || failed "$program" "this machine lacks $missing"
done
part machine 60 build/release/athanor detect
command -v nvidia-smi >/dev/null && part nvidia-smi 20 nvidia-smi
if [ $tiny = 1 ]; then
  # Examines the device, which all parts need.
  compute=(env ATHANOR_DISABLE=tune build/release/athanor explain --inference --model mlp --device "$device")
  products=(--squares 64 --no-skinny --samples 2 --budget 40) models=(mlp) batches=(8) tune=1 precision=f32
else
  compute=(build/release/athanor doctor --self-test)
  products=(--budget $((seconds * 3 / 10))) models=(resnet50 gpt2-small) batches=(64 8) tune=45 precision=bf16
fi
part compute 60 "${compute[@]}"
part products $((seconds * 4 / 10)) build/release/bench/compare_products --device "$device" "${products[@]}" --json "$out/products.json"

# Athanor first, with kernels timed between its first steps; faster kernels that are found stay in the cache.
for i in "${!models[@]}"; do
  model=${models[$i]}
  rest=$((${#models[@]} - i))
  step=(--model "$model" --batch "${batches[$i]}" --device "$device" --threads "$threads" --precision $precision --steps $((tiny ? 3 : 20)) --warmup 5)
  part "$model-athanor" $(($(left) / rest / 2)) build/release/bench/compare_step "${step[@]}" --tune-seconds $tune
  for mode in eager compiled; do
    "$python" -c 'import torch' 2>/dev/null || { failed "$model-$mode" "$python has no PyTorch"; continue; }
    options=() limit=$(($(left) / rest / 2))
    [ $mode = eager ] || options=(--compile) limit=$(($(left) * 2 / 3 / rest))
    part "$model-$mode" $limit "$python" bench/compare/pytorch_step.py "${step[@]}" "${options[@]}"
  done
done
"$python" bench/compare/gpu_report "$out" --device "$device" --precision $precision --seconds $SECONDS
