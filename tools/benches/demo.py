"""The demo model through HTTP without the prompt cache: ready, prefill, decode, memory, threads."""
import contextlib
import json
import statistics

from benches.kit import ROOT, Server, Verdict, ask, table

REPEATS, TOKENS = 9, 128
MODES = {"1 thread, no drafts": ("--threads", "1", "--no-drafts"),
         "2 threads, no drafts": ("--threads", "2", "--no-drafts"),
         "2 threads, drafts auto": ("--threads", "2")}


def measure(server, prompt):
    stats = ask(server, "/v1/completions", {
        "prompt": prompt, "max_tokens": TOKENS, "temperature": 0, "ignore_eos": True,
        "cache_prompt": False})["lanefold"]
    return {"prefill": len(prompt) / stats["prefill_seconds"],
            "decode": (TOKENS - 1) / stats["decode_seconds"], "sha": stats["token_sha256"]}


def ready_ms(flags):
    with Server(*flags) as server:
        return server.ready_ms


def run():
    golden = ROOT / "tests" / "data" / "demo-golden" / "recall.json"
    prompt = json.loads(golden.read_text())["ids"]
    ready = {name: statistics.median(ready_ms(flags) for _ in range(3))
             for name, flags in MODES.items()}
    rows = {name: [] for name in MODES}
    with contextlib.ExitStack() as stack:
        servers = {name: stack.enter_context(Server(*flags)) for name, flags in MODES.items()}
        for _ in range(REPEATS):
            for name, server in servers.items():
                rows[name].append(measure(server, prompt))
        peak = {name: server.status_bytes("VmHWM") / 2**20 for name, server in servers.items()}
    median = {key: {name: statistics.median(row[key] for row in rows[name]) for name in MODES}
              for key in ("prefill", "decode")}
    one, two, drafted = MODES
    table(["", *MODES, "2 threads / 1", "drafts / none"],
          [[f"{key}, tokens/s", *(f"{rate:,.0f}" for rate in rates.values()),
            f"{rates[two] / rates[one]:.2f}", f"{rates[drafted] / rates[two]:.2f}"]
           for key, rates in median.items()] +
          [["peak resident memory, MiB", *(f"{peak[name]:.1f}" for name in MODES), "", ""],
           ["start to listening, ms", *(f"{ready[name]:.0f}" for name in MODES), "", ""]])
    different = len({row["sha"] for list_of in rows.values() for row in list_of}) - 1
    return Verdict(not different, f"{len(MODES) * REPEATS} replies of {TOKENS} tokens after "
                                  f"{len(prompt)}, {different} unequal")
