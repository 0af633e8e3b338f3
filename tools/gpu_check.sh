#!/usr/bin/env bash
# All of the CUDA column that needs a device: bytes, contract, exactness, benches, memory and races.
# Usage: tools/gpu_check.sh [BUILD]: uses what is there; an absent one is made, of the check alone.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
build=$(realpath -m "${1:-build-gpu}")
check=$build/tests/cuda/check_cuda
failed=0

if [ ! -x "$check" ]; then
  meson setup "$build" -Dcuda=enabled -Ddevice_only=true || exit 1
  ninja -C "$build" tests/cuda/check_cuda || exit 1
fi

# A part that fails or takes too long leaves the others to run.
part() {
  local limit=$1 start=$SECONDS
  shift
  echo "== $*"
  timeout "$limit" "$@" || { echo "== FAILED with $?"; failed=1; }
  echo "== $((SECONDS - start)) s"
}

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader || true
part 60 "$check" small
part 150 "$check" all
part 60 "$check" time
# The contract, rounds and replies need the whole program: -Dcuda=enabled, src/cuda.so for faults.
if [ -x "$build/src/lanefold" ]; then
  part 90 "$build/src/lanefold" bench layers tests/data --dummy-weights 1 --engram-rows 131072 \
    --device cuda --reps 1 --lanes 1,4,16
  for exact in "$build"/tests/exact/test_exact_[!f]* "$build"/tests/exact/test_exact_forced; do
    [ -f "$exact" ] && part 120 "$exact" --device cuda
  done
  golden=$build/tests/golden/test_golden_gpu
  [ -x "$golden" ] && part 120 env CUDA_LAUNCH_BLOCKING=1 "$golden" ends
  part 120 env LF_BINARY="$build/src/lanefold" LF_DEVICE=cuda python3 tools/bench concurrent cache \
    ladder logprobs hit greedy
  faults=()
  [ -e "$build/src/cuda.so" ] && faults=(--faults "$build/src")
  part 300 "$build/src/lanefold" contract --backend cuda "${faults[@]}"
else
  echo "== no $build/src/lanefold: no contract, no rounds, no replies"
fi
part 60 compute-sanitizer --tool memcheck --error-exitcode 9 "$check" small
# Races are looked for kernel by kernel: the tool slows those that use much shared memory.
for kernel in $(sed -n 's/^LF_KERNEL(\(.*\))$/\1/p' src/kernel/registry.def); do
  # Of a warp that passes a barrier by one lane the tool reports the others (docs/cuda.md).
  code=9
  case $kernel in linear | attention) code=0 ;; esac
  part 120 compute-sanitizer --tool racecheck --error-exitcode "$code" "$check" small "$kernel"
done
[ "$failed" = 0 ] && echo "gpu_check: passed" || echo "gpu_check: FAILED"
exit "$failed"
