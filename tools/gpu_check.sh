#!/usr/bin/env bash
# Everything of the CUDA column that needs a device: bytes against the CPU, times, memory and races.
# Usage: tools/gpu_check.sh [BUILD]; BUILD's check_cuda is built unless it is there.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
build=${1:-build-gpu}
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
part 60 compute-sanitizer --tool memcheck --error-exitcode 9 "$check" small
# The contract needs the whole program: -Dcuda=enabled, and src/cuda.so for the controls.
if [ -x "$build/src/lanefold" ]; then
  faults=()
  [ -e "$build/src/cuda.so" ] && faults=(--faults "$build/src")
  part 300 "$build/src/lanefold" contract --backend cuda "${faults[@]}"
else
  echo "== contract not run: no $build/src/lanefold"
fi
# Races are looked for kernel by kernel: the tool slows those that use much shared memory.
for kernel in $(sed -n 's/^LF_KERNEL(\(.*\))$/\1/p' src/kernel/registry.def); do
  # Of a warp that passes a barrier by one lane the tool reports the others (docs/cuda.md).
  code=9
  [ "$kernel" = linear ] && code=0
  part 120 compute-sanitizer --tool racecheck --error-exitcode "$code" "$check" small "$kernel"
done
[ "$failed" = 0 ] && echo "gpu_check: passed" || echo "gpu_check: FAILED"
exit "$failed"
