"""Do served kernels hold no control, does each planted fault belong to a record, does one show?"""
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(os.environ["LF_SOURCE_ROOT"])
BINARY = Path(os.environ["LF_BINARY"])
BUILD = BINARY.parent.parent
SANITIZED = "-fsanitize" in (BUILD / "compile_commands.json").read_text()
CONDITION = re.compile(r"^\s*#\s*(if|elif)\b.*\bLF_FAULT\b|^\s*#\s*ifdef LF_FAULTS\b")
# Compiled in full as well; of all others the compiler is shown to read the same text.
COMPILED = {"rms_norm_cpu.c", "router_cpu.c"}


def taken(line):
    """What a condition on LF_FAULT gives where LF_FAULT is 0."""
    if "ifdef" in line:
        return False
    expression = re.sub(r"^\s*#\s*(if|elif)\b", "", line.split("//")[0])
    expression = expression.replace("LF_FAULT", "0").replace("&&", " and ").replace("||", " or ")
    return bool(eval(re.sub(r"!(?!=)", " not ", expression), {}))


def without_controls(text):
    """The text with its control blocks emptied, line for line."""
    out, stack = [], []
    for line in text.split("\n"):
        word = re.match(r"^\s*#\s*(if|ifdef|ifndef|elif|else|endif)\b", line)
        word = word.group(1) if word else ""
        if word in ("if", "ifdef", "ifndef"):
            ours = bool(CONDITION.match(line))
            stack.append([ours, taken(line) if ours else True, taken(line) if ours else True])
            out.append("" if ours else line)
            continue
        ours = bool(stack) and stack[-1][0]
        if word and ours:
            if word == "endif":
                stack.pop()
            else:
                now = not stack[-1][2] and (word == "else" or taken(line))
                stack[-1][1], stack[-1][2] = now, stack[-1][2] or now
            out.append("")
            continue
        if word == "endif":
            stack.pop()
        out.append(line if all(entry[1] for entry in stack) else "")
    return "\n".join(out)


def without_statements(text):
    """CUDA code without its LF_CONTROL(...) statements."""
    out, at = [], 0
    for found in re.finditer(r"^ +LF_CONTROL\(", text, re.M):
        if found.start() < at:
            continue
        depth, end = 1, found.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        out.append(text[at:found.start()] + "\n" * text.count("\n", found.start(), end))
        at = end
    return "".join(out) + text[at:]


def run(words, text=None):
    return subprocess.run(words, cwd=BUILD, input=text, capture_output=True, check=True).stdout


def arguments(command):
    """The compile command without its output, dependency file and source."""
    words, out, at = shlex.split(command), [], 0
    widths = {"-o": 2, "-MF": 2, "-MQ": 2, "-MD": 1, "-c": 2, "ccache": 1}
    while at < len(words):
        if words[at] not in widths:
            out.append(words[at])
        at += widths.get(words[at], 1)
    return out


def served_sources():
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        if "-DLF_ISA=" in entry["command"] and "libkernel_" in entry["output"]:
            yield entry


def code_of(path, folder):
    """The object without the symbol that names its source."""
    plain = folder / "plain.o"
    run(["objcopy", "--strip-unneeded", str(path), str(plain)])
    return plain.read_bytes()


def check_served(bare, report):
    """Compiles or preprocesses each served source as it is and from the tree without controls."""
    for entry in served_sources():
        source = (BUILD / entry["file"]).resolve()
        copy = bare / source.relative_to(ROOT / "src")
        name = f"{source.name} for {re.search('LF_ISA=(.*?)[ ]', entry['command'] + ' ').group(1)}"
        words = arguments(entry["command"])
        bare_words = [words[0], f"-I{bare}"] + words[1:]
        text = f'# 1 "{entry["file"]}"\n{copy.read_text()}'.encode()
        preprocess = ["-E", "-P"]
        seen = run(words + preprocess + [entry["file"]])
        report(seen == run(bare_words + preprocess + ["-x", "c", "-"], text),
               f"{name}: the compiler reads something else without controls")
        report(b"LF_FAULT" not in seen, f"{name}: a control is left in the preprocessed source")
        if source.name in COMPILED and not SANITIZED:
            target = bare / "object.o"
            run(bare_words + ["-o", str(target), "-c", "-x", "c", "-"], text)
            report(code_of(target, bare) == code_of(BUILD / entry["output"], bare),
                   f"{name}: other code without controls")


def check_cuda(bare, report):
    """The CUDA column's sources, read by a host's compiler, hold no control either."""
    words = ["g++", "-x", "c++", "-std=c++17", "-E", "-P"]
    host, *paths = [f"-I{ROOT / part}" for part in ("tests/cuda/host", "tests", "src", "include")]
    for source in sorted((ROOT / "src/kernel").rglob("*_cuda.cu")):
        copy = bare / source.relative_to(ROOT / "src")
        seen = run(words + [host] + paths + [str(source)]).split()
        report(seen == run(words + [host, f"-I{bare}"] + paths + [str(copy)]).split(),
               f"{source.name}: the compiler reads something else without controls")
        report(not any(b"lf_fault" in word for word in seen),
               f"{source.name}: a control is left in the preprocessed source")


def planted_cuda(folder):
    text = "".join(path.read_text() for path in folder.glob("*.cu*"))
    return {int(n) for n in re.findall(r"^ +LF_CONTROL\((\d+),", text, re.M)}


def planted(folder):
    numbers = set()
    for path in folder.glob("*.[ch]"):
        for line in path.read_text().splitlines():
            if CONDITION.match(line):
                numbers |= {int(n) for n in re.findall(r"LF_FAULT [=!]= (\d+)", line)}
    return numbers


def check_listed(backend, planted_of, report):
    """Every fault of a kernel with a record is one of its controls, and the other way round."""
    listing = run([str(BINARY), "contract", "--list", "--backend", backend]).decode()
    for part in re.split(r"\n(?=\w+ \(src)", listing):
        name = part.split()[0]
        controls = {int(n) for n in re.findall(r"^  control (\d+),", part, re.M)}
        report(planted_of(ROOT / "src/kernel" / name) == controls,
               f"{name} on {backend}: faults of the source and controls of the record differ")
        gates = [int(g, 16) for g in re.findall(r"red in gates (0x[0-9a-f]+)", part)]
        report(len(gates) >= 2 and any(g & 1 for g in gates) and any(g & 14 for g in gates),
               f"{name} on {backend}: needs a control in gate 1 and one in gates 2 to 4")


def check_modules(report):
    """tools/contract builds modules of a kernel, and each fault in them shows."""
    done = subprocess.run([str(ROOT / "tools/contract"), str(BUILD), "stream_mean"],
                          capture_output=True, text=True)
    report(done.returncode == 0, f"tools/contract: {done.stderr}")
    out = subprocess.run([str(BINARY), "contract", "--only", "stream_mean", "--faults",
                          done.stdout.strip()], capture_output=True, text=True)
    report(out.returncode == 0 and re.search(r"; (\d+) controls: \1 red as planted, 0 missed;",
                                             out.stdout), out.stdout + out.stderr)


def main():
    passed, problems = 0, []

    def report(holds, why):
        nonlocal passed
        passed += bool(holds)
        if not holds:
            problems.append(why)

    with tempfile.TemporaryDirectory() as folder:
        bare = Path(folder)
        for path in (ROOT / "src/kernel").rglob("*.[ch]*"):
            copy = bare / path.relative_to(ROOT / "src")
            copy.parent.mkdir(parents=True, exist_ok=True)
            # Assertions name their file and line.
            marker = f'# 1 "{path}"\n' if path.suffix.startswith(".cu") else ""
            copy.write_text(marker + without_statements(without_controls(path.read_text())))
        check_served(bare, report)
        check_cuda(bare, report)
    check_listed("cpu", planted, report)
    check_listed("cuda", planted_cuda, report)
    if not SANITIZED:
        check_modules(report)
    print("\n".join(problems + [f"{passed} passed, {len(problems)} failed"]))
    return 1 if problems or passed < 50 else 0


sys.exit(main())
