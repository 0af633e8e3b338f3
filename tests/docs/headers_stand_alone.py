"""Does every header compile when a file includes it alone, the public one as C++ too?"""
import glob
import os
import platform
import re
import subprocess
import sys

root = os.environ["LF_SOURCE_ROOT"]
passed = failed = 0


def check(path, folder, compiler, *flags):
    global passed, failed
    name = os.path.relpath(path, f"{root}/{folder}")
    result = subprocess.run(
        [*compiler.split(), "-fsyntax-only", "-Wall", "-Wextra", "-Werror",
         "-Wno-unused-function", *flags, "-"],
        input=f'#include "{name}"\n', text=True, capture_output=True)
    passed, failed = passed + (result.returncode == 0), failed + (result.returncode != 0)
    if result.returncode:
        print(f"{folder}/{name} does not stand alone ({compiler}):\n{result.stderr[:400]}")


def reaches(header, wanted):
    """Whether a header is `wanted` or includes it through others of src/."""
    if header.endswith(wanted):
        return True
    with open(header, encoding="utf-8") as file:
        names = re.findall(r'^#include "(kernel/linear/[^"]+)"', file.read(), re.MULTILINE)
    return any(reaches(f"{root}/src/{name}", wanted) for name in names)


for header in sorted(glob.glob(f"{root}/src/**/*.h", recursive=True)):
    # Vector pieces of a kernel's source are parts of that file and of its instruction set.
    vector = ["-mavx2", "-mfma"] if reaches(header, "linear_vec.h") else []
    if vector and platform.machine() != "x86_64":
        vector = ["-DLF_NEON"]
    if not header.endswith("_avx2.h"):
        check(header, "src", "cc -std=c17", "-D_GNU_SOURCE", f"-I{root}/src", f"-I{root}/include",
              *vector, "-xc")
# The public header must need nothing of src/, no extension and no feature macro.
for header in sorted(glob.glob(f"{root}/include/*.h")):
    check(header, "include", "cc -std=c17", "-pedantic-errors", f"-I{root}/include", "-xc")
    check(header, "include", "c++ -std=c++17", "-pedantic-errors", f"-I{root}/include", "-xc++")
print(f"{passed} passed, {failed} failed")
sys.exit(1 if failed or passed < 50 else 0)
