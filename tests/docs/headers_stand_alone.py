"""Does every header of src/ compile when it is the only thing a file includes?"""
import glob
import os
import subprocess
import sys

root = os.environ["LF_SOURCE_ROOT"]
passed = failed = 0
for path in sorted(glob.glob(f"{root}/src/**/*.h", recursive=True)):
    name = os.path.relpath(path, f"{root}/src")
    # AVX2 pieces of a kernel's source are parts of that file and of its instruction set.
    if name.endswith("_avx2.h"):
        continue
    result = subprocess.run(
        ["cc", "-std=c17", "-D_GNU_SOURCE", "-fsyntax-only", "-Wall", "-Wextra", "-Werror",
         "-Wno-unused-function", f"-I{root}/src", "-x", "c", "-"],
        input=f'#include "{name}"\n', text=True, capture_output=True)
    passed, failed = passed + (result.returncode == 0), failed + (result.returncode != 0)
    if result.returncode:
        print(f"src/{name} does not stand alone:\n{result.stderr[:400]}")
print(f"{passed} passed, {failed} failed")
sys.exit(1 if failed or passed < 50 else 0)
