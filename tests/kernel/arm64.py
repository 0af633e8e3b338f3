"""Kernels built for AArch64, portable and NEON, give the bits they give here (run under qemu)."""
import shutil
import subprocess
import sys
from pathlib import Path

COMPILER, EMULATOR, SKIPPED = "aarch64-linux-gnu-gcc", "qemu-aarch64", 77
FLAGS = ["-std=c17", "-O3", "-D_GNU_SOURCE", "-ffp-contract=off", "-fno-math-errno",
         "-fno-trapping-math", "-Wall", "-Wextra", "-Werror", "-pthread",
         '-DLF_VERSION=""']
SETS = {"portable": [], "neon": ["-DLF_NEON"]}


def compile_all(root, folder, parts):
    """The digest program for AArch64: its parts once, every kernel once a set."""
    include = [f"-I{root / name}" for name in ("src", "include")]
    jobs = [(part, folder / f"part_{Path(part).stem}.o", []) for part in parts]
    for name, flags in SETS.items():
        for source in sorted((root / "src/kernel").glob("*/*_cpu.c")):
            jobs.append((source, folder / f"{name}_{source.stem}.o", [f"-DLF_ISA={name}", *flags]))
    for source, target, flags in jobs:
        subprocess.run([COMPILER, *FLAGS, *flags, *include, "-c", source, "-o", target],
                       check=True)
    program = folder / "isa_digest"
    subprocess.run([COMPILER, "-static", "-pthread", *(target for _, target, _ in jobs), "-lm",
                    "-o", program], check=True)
    return program


def digests(command):
    """{(kernel, set): digest} of one run; a difference inside it ends the program."""
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {tuple(line.split()[:2]): line.split()[2] for line in out.splitlines()}


def main():
    native, folder, parts = Path(sys.argv[1]).resolve(), Path(sys.argv[2]), sys.argv[3:]
    if not shutil.which(COMPILER) or not shutil.which(EMULATOR):
        print("SKIP: no cross compiler or no emulator for AArch64")
        return SKIPPED
    folder.mkdir(parents=True, exist_ok=True)
    root = Path(__file__).resolve().parents[2]
    here = digests([native])
    there = digests([EMULATOR, compile_all(root, folder, parts)])
    wrong = [key for key, value in there.items() if value != here[key[0], "portable"]]
    missing = {kernel for kernel, _ in here} ^ {kernel for kernel, name in there if name == "neon"}
    for key in wrong:
        print("differs:", *key)
    print(f"{len(there)} digests, {len(wrong)} differ, {len(missing)} missing")
    return 1 if wrong or missing else 0


sys.exit(main())
