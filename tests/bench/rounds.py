#!/usr/bin/env python3
"""Does bench layers time rounds on the device that the host plays, and refuse what it cannot do?"""
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ["LF_SOURCE_ROOT"], "tests"))
# pylint: disable=wrong-import-position
from server.harness import Checks

PLAYED, PLAIN = sys.argv[1], os.environ["LF_BINARY"]
DEMO = os.path.join(os.environ["LF_SOURCE_ROOT"], "models", "demo")
LAYERS = 8
ROUND = {"phase", "tokens", "context", "seconds", "kernels_s", "gaps", "launches", "calls",
         "bytes", "operations", "limit_s", "of_limit", "kernels"}
KERNEL = {"kernel", "calls", "seconds", "share", "operations", "bytes", "limit_s", "of_limit"}
checks = Checks()


def bench(*flags, binary=PLAYED, **environment):
    environment = {**os.environ, **environment}
    return subprocess.run([binary, "bench", "layers", DEMO, "--dummy-weights", "1", *flags],
                          capture_output=True, timeout=280, env=environment, check=False)


def refused(name, code, pattern, *flags, **how):
    result = bench(*flags, **how)
    said = result.stderr.decode()
    checks.check(name, result.returncode == code and re.search(pattern, said) and
                 not result.stdout, f"exit {result.returncode}: {said[-300:]}")


def refusals():
    refused("a build without CUDA, or a machine without such a device", 3,
            "built without CUDA|no usable driver|CUDA device 63", "--device", "cuda:63",
            binary=PLAIN)
    refused("no device", 3, "no usable driver", "--device", "cuda", LF_PLAYED_DEVICES="0")
    refused("auto without a device", 3, "timed on a CUDA device, found none", "--device", "auto",
            "--contexts", "40", "--chunks", "3", "--context", "48", LF_PLAYED_DEVICES="0")
    refused("some layers", 2, "--layers: on a device all layers run", "--device", "cuda",
            "--layers", "2")
    refused("too many lanes", 2, "--lanes: a round has at most 64", "--device", "cuda",
            "--lanes", "65")
    refused("a list", 2, "--contexts 1,x: expected up to", "--device", "cuda", "--contexts", "1,x")
    refused("a chunk past its context", 2, "--context 16: expected at least the rows",
            "--device", "cuda", "--chunks", "17", "--context", "16")


def check_kernels(row):
    """Each kernel once, with its part of the sums; a decode round runs what it must."""
    kernels = {kernel["kernel"]: kernel for kernel in row["kernels"]}
    name = row["phase"]
    checks.check(f"{name}: columns", set(row) == ROUND, set(row) ^ ROUND)
    checks.check(f"{name}: kernel columns", all(set(k) == KERNEL for k in row["kernels"]))
    checks.check(f"{name}: each once", len(kernels) == len(row["kernels"]))
    for column in ("calls", "operations", "bytes"):
        total = sum(kernel[column] or 0 for kernel in row["kernels"])
        checks.check(f"{name}: sum of {column}", abs(total - row[column]) <= 1e-6 * total,
                     f"{total} {row[column]}")
    checks.check(f"{name}: embed", kernels["embed"]["calls"] == 1)
    checks.check(f"{name}: times", row["seconds"] > 0 and row["kernels_s"] > 0 and
                 abs(row["gaps"] - (1 - row["kernels_s"] / row["seconds"])) < 1e-6)
    checks.check(f"{name}: launches", row["launches"] > 0)
    return kernels


def measured(name, *flags):
    """A bench's result and its report; None where it fails, which is a failed check."""
    report = os.path.join(tempfile.mkdtemp(prefix="lanefold-rounds-"), "report.json")
    result = bench("--device", "cuda", "--threads", "1", "--output", report, *flags)
    if not checks.check(name, result.returncode == 0, result.stderr[-400:]):
        return result, None
    with open(report, encoding="utf-8") as file:
        return result, json.load(file)


def figures():
    result, found = measured("it ends well", "--lanes", "2", "--contexts", "40", "--chunks", "3",
                             "--context", "48")
    if not found:
        return
    memory, decode, chunk, middle = found["rows"]
    checks.check("phases", [row["phase"] for row in found["rows"]] ==
                 ["memory", "decode", "chunk", "middle-chunk"])
    checks.check("limits", all(found["settings"][name] > 0 for name in
                               ("read_bytes_per_s", "copy_bytes_per_s", "peak_operations_per_s")))
    checks.check("memory as planned", memory["lanes"] == 2 and memory["context"] == 40 and
                 0.9 * memory["plan_bytes"] < memory["held_bytes"] <= memory["plan_bytes"], memory)
    kernels = check_kernels(decode)
    checks.check("a decode round", decode["tokens"] == 2 and decode["context"] == 40 and
                 kernels["attention"]["calls"] == LAYERS and kernels["sample"]["calls"] >= 1 and
                 kernels["hc_mix"]["calls"] == 2 * LAYERS, kernels.keys())
    whole = check_kernels(chunk)
    checks.check("a chunk in all layers", whole["attention"]["calls"] == LAYERS)
    # Below the last source of keys rows of the middle of a prompt run no further.
    some = check_kernels(middle)
    checks.check("a chunk of the middle", 0 < some["attention"]["calls"] < LAYERS and
                 middle["operations"] < chunk["operations"])
    checks.check("the last line", re.search(rb"^8 layers, 3 kinds of rounds; ",
                                            result.stdout.splitlines()[-1]))


def first_chunk():
    _, found = measured("a prompt's first chunk", "--lanes", "1", "--contexts", "5", "--chunks",
                        "5", "--context", "5")
    if not found:
        return
    _, decode, chunk, _ = found["rows"]
    checks.check("five rows from the first position on cost more than one",
                 chunk["operations"] > decode["operations"])


refusals()
figures()
first_chunk()
print(f"{checks.passed} passed, {checks.failed} failed")
sys.exit(1 if checks.failed else 0)
