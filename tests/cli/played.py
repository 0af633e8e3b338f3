#!/usr/bin/env python3
"""Does --device choose, refuse, plan and run, over the CUDA device that the host plays?"""
import json
import os
import re
import signal
import subprocess
import sys

root, plain, played = os.environ["LF_SOURCE_ROOT"], os.environ["LF_BINARY"], sys.argv[1]
demo = f"{root}/models/demo"
failed = 0


def run(binary, *args, **environment):
    environment = {**os.environ, **{name: str(value) for name, value in environment.items()}}
    return subprocess.run([binary, *args], capture_output=True, timeout=200, env=environment)


def check(ok, what, result):
    global failed
    if not ok:
        failed += 1
        print("FAILED:", what, result.returncode, result.stdout[-600:], result.stderr[-400:])


def refused(what, code, pattern, *args, **environment):
    result = run(played, "run", demo, "-p", "x", *args, **environment)
    check(result.returncode == code and re.search(pattern, result.stderr.decode()) and
          not result.stdout, what, result)


def plan(*args, **environment):
    result = run(played, "plan", demo, "--json", *args, **environment)
    return json.loads(result.stdout or b"{}"), result


def reply(binary, device):
    result = run(binary, "run", demo, "--device", device, "--raw", "-p", "x", "--context", "8",
                 "--max-tokens", "2", "--temperature", "0", "--json", "--threads", "1")
    check(result.returncode == 0, f"run on {device}", result)
    return json.loads(result.stdout or b"{}").get("token_ids"), result


def check_refusals():
    refused("no device", 3, "no usable driver: no CUDA-capable device", "--device", "cuda",
            LF_PLAYED_DEVICES=0)
    refused("index", 3, "CUDA device 3: this machine has 1", "--device", "cuda:3")
    refused("an old device", 1, "compute capability 8.0; expected 9.0", "--device", "cuda",
            LF_PLAYED_MAJOR=8)
    refused("a full device", 1, "has 100 of 8192 MiB free; expected 512", "--device", "cuda",
            LF_PLAYED_FREE_MIB=100)
    refused("too little memory", 1, r"does not fit on CUDA device 0 \(host\): it needs \d+ bytes",
            "--device", "cuda", LF_PLAYED_FREE_MIB=600)
    refused("several", 2, "several devices are not supported", "--device", "cuda:0,1")
    refused("a word", 2, "--device gpu: expected auto, cpu, cuda or cuda:N", "--device", "gpu")
    refused("no number", 2, "expected auto, cpu, cuda or cuda:0 to cuda:63", "--device", "cuda:")
    refused("a driver error while it loads", 70, "CUDA: linear: an illegal memory access",
            "--device", "cuda", "--context", "8", LF_PLAYED_FAIL_LAUNCH=700)


def check_plans():
    there, result = plan("--device", "cuda")
    check(there["device"] == "cuda:0" and there["total_bytes"] == 8 << 30 and there["fits"] and
          there["need_bytes"] == sum(there["lines"].values()), "the device's plan", result)
    here = there["host"]
    tables = here["lines"]["engram_tables"]
    check(tables > 0 and here["need_bytes"] == sum(here["lines"].values()) - tables,
          "the host's part", result)
    check(there["lines"]["weights"] and not here["lines"]["weights"], "weights go over", result)
    made_up, result = plan("--device", "cuda", "--dummy-weights", "1")
    check(made_up["lines"]["weights"] > 10 << 20 and made_up["host"]["lines"]["weights"] == tables,
          "of made-up weights the host has the tables", result)
    less, result = plan("--device", "cuda", "--context", "100")
    check(less["lines"]["kv"] < there["lines"]["kv"], "a shorter context", result)
    limit, result = plan("--device", "cuda", "--memory-limit-gib", "2")
    check(limit["budget_bytes"] == 2 << 30, "the limit is the device's", result)
    small, result = plan("--device", "cuda", LF_PLAYED_FREE_MIB=600)
    check(not small["fits"] and result.returncode == 1 and small["ways"], "ways out", result)


def check_auto():
    for what, environment in [("no device", {"LF_PLAYED_DEVICES": 0}),
                              ("an old device", {"LF_PLAYED_MAJOR": 8}),
                              ("too little memory", {"LF_PLAYED_FREE_MIB": 600})]:
        choice, result = plan(**environment)
        check(choice["device"] == "cpu" and choice["fits"] and "host" not in choice, what, result)
    check(plan()[0]["device"] == "cuda:0", "auto takes the device", plan()[1])
    check(plan("--device", "cpu")[0]["device"] == "cpu", "cpu is the CPU", plan()[1])


def check_replies():
    there, result = reply(played, "cuda")
    check(there == reply(plain, "cpu")[0], "greedy tokens of both", result)


# A fault in mid-reply: nothing is drawn after it.
def check_fault(fault, code, said):
    process = subprocess.Popen([played, "run", demo, "--device", "cuda", "--raw", "-p", "x",
                                "--context", "64", "--max-tokens", "60", "--threads", "1"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    begun = process.stdout.read(1)
    process.send_signal(fault)
    _, errors = process.communicate(timeout=100)
    result = subprocess.CompletedProcess([], process.returncode, begun, errors)
    check(begun and process.returncode == code and said in errors, f"{fault} in mid-reply", result)


check_refusals()
check_plans()
check_auto()
check_replies()
# engine.md F-3, F-2: a poisoned context ends the process with 70, one refused launch the reply.
check_fault(signal.SIGUSR1, 70, b"illegal memory access")
check_fault(signal.SIGUSR2, 1, b"the reply failed: CUDA: ")
sys.exit(failed > 0)
