"""Does the example build with the installed library, shared and static, and answer like run?"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

root, binary, build = os.environ["LF_SOURCE_ROOT"], os.environ["LF_BINARY"], sys.argv[1]
message = "What is the capital of Norway?"
passed = failed = 0
HEADER_USE = """#include <lanefold.h>
int main() {
    lf_engine *engine;
    lf_engine_options options = LF_ENGINE_OPTIONS_INIT;
    lf_error err = LF_ERROR_INIT;
    return lf_engine_open(&engine, "/nowhere", &options, &err) == LF_E_NOT_FOUND ? 0 : 1;
}
"""


def check(ok, what, detail=""):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    if not ok:
        print("FAILED:", what, detail)


def call(*command, **environment):
    return subprocess.run(command, capture_output=True, text=True, timeout=240,
                          env={**os.environ, **environment})


def flags(prefix, *ask):
    found = list(prefix.rglob("lanefold.pc"))
    check(len(found) == 1, "one lanefold.pc is installed")
    out = call("pkg-config", f"--define-variable=prefix={prefix}", *ask, "lanefold",
               PKG_CONFIG_PATH=str(found[0].parent))
    check(out.returncode == 0, "pkg-config " + " ".join(ask), out.stderr)
    return out.stdout.split()


def answers(program, what, **environment):
    """Runs the example without naming a model: the installed demo is found."""
    out = call(str(program), message, **environment)
    sha = re.search(r"sha256 ([0-9a-f]{64})$", out.stdout.strip())
    check(out.returncode == 0 and "Oslo" in out.stdout and sha, what, out.stdout + out.stderr)
    return sha and sha.group(1)


def exported(library):
    out = call("nm", "-D", "--defined-only", str(library)).stdout
    return {line.split()[2] for line in out.splitlines() if len(line.split()) == 3}


def check_symbols(prefix):
    """The shared library exports the functions of its header, all of them and no other."""
    header = (prefix / "include" / "lanefold.h").read_text()
    declared = set(re.findall(r"^LF_API [^;(]*?\b(lf_\w+)\(", header, re.M))
    shared = next(prefix.rglob("liblanefold.so"))
    found = {name for name in exported(shared) if name.startswith("lf_")}
    check(len(declared) > 15 and declared == found, "exports", declared ^ found)
    check(not {name for name in exported(shared) if not re.match(r"lf_|_init|_fini|__|_end|_edata",
                                                                 name)}, "nothing else exported")
    soname = call("readelf", "-d", str(shared)).stdout
    check("[liblanefold.so.0]" in soname, "soname", soname)
    installed = [path.name for path in (prefix / "include").rglob("*.h")]
    check(installed == ["lanefold.h"], "one header", installed)


def main():
    with tempfile.TemporaryDirectory() as folder:
        out = call("meson", "install", "-C", build, "--no-rebuild", "--destdir", folder)
        check(out.returncode == 0, "meson install", out.stdout[-400:] + out.stderr[-400:])
        prefix = next(Path(folder).rglob("include")).parent
        shared = next(prefix.rglob("liblanefold.so"))
        example, work = f"{root}/examples/chat.c", Path(folder)
        check_symbols(prefix)
        strict = ["-std=c17", "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra", "-pedantic",
                  "-Werror"]
        out = call("cc", *strict, example, "-o", str(work / "chat"),
                   *flags(prefix, "--cflags", "--libs"))
        check(out.returncode == 0, "the example builds shared", out.stderr)
        sha = answers(work / "chat", "shared", LD_LIBRARY_PATH=str(shared.parent))
        ran = call(binary, "run", "-p", message, "--no-thinking", "--json")
        check(sha == json.loads(ran.stdout)["token_sha256"], "the reply is that of run", ran.stdout)
        (work / "use.cc").write_text(HEADER_USE)
        out = call("c++", "-std=c++20", "-Wall", "-Werror", str(work / "use.cc"), "-o",
                   str(work / "use"), *flags(prefix, "--cflags", "--libs"))
        check(out.returncode == 0, "C++ builds", out.stderr)
        out = call(str(work / "use"), LD_LIBRARY_PATH=str(shared.parent))
        check(out.returncode == 0, "C++ calls it", out.stderr)
        for library in list(prefix.rglob("liblanefold.so*")):
            library.unlink()
        program = prefix / "bin" / "chat"
        out = call("cc", *strict, example, "-o", str(program),
                   *flags(prefix, "--static", "--cflags", "--libs"))
        check(out.returncode == 0, "the example builds static", out.stderr)
        check(answers(program, "static") == sha, "static and shared reply alike")
        shutil.move(program, work / "alone")
        out = call(str(work / "alone"), message)
        check(out.returncode == 1 and "demo model is not beside" in out.stderr,
              "no model where none is found", out.stdout + out.stderr)
        out = call(str(work / "alone"), message, f"{root}/models/demo")
        check(out.returncode == 0 and sha in out.stdout, "a model by folder", out.stderr)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or passed < 18 else 0


sys.exit(main())
