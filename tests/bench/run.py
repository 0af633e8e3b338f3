"""Does every bench tool name what a server does wrong: field, verdict, last line, exit code?"""
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.environ["LF_SOURCE_ROOT"], "tests"))
# pylint: disable=wrong-import-position
from bench import fake_server as fakes
from server.harness import Checks, Server

BINARY, FAKE = os.environ["LF_BINARY"], fakes.__file__
FOLDER = tempfile.mkdtemp(prefix="lanefold-bench-")
checks = Checks()

# Ways to spoil every reply: the field that shows it and its value.
BROKEN = {"no_usage": "usage", "usage_string": "usage", "usage_bool": "usage",
          "usage_negative": "usage", "usage_fraction": "usage", "usage_above": "usage",
          "usage_zero": "usage", "no_done": "incomplete", "cut": "transport", "reset": "transport",
          "error_event": "error_event", "not_json": "not_json", "long_line": "too_large",
          "http_500": "http_status"}
UNKNOWN_CACHE = ["cached_above", "cached_string", "cached_bool", "cached_negative",
                 "cached_fraction"]
EVIDENCE = {"prompt_tokens", "cached_tokens", "tokens", "cache_state", "complete", "token_sha",
            "output_sha256", "ttft_s", "decode_tps", "drafted", "accepted", "rounds",
            "plain_rounds", "error"}


def bench(tool, *flags, url=None):
    """Exit code, last line, report and standard error of one run."""
    number = len(os.listdir(FOLDER))
    report = os.path.join(FOLDER, f"{tool}-{number}-{id(flags)}.json")
    place = [url, fakes.MODEL] if url else []
    result = subprocess.run([BINARY, "bench", tool, *place, *flags, "--output", report],
                            capture_output=True, timeout=120, check=False)
    lines, said = result.stdout.decode().split("\n"), result.stderr.decode()
    checks.check(f"{tool} {flags} is clean", "Sanitizer" not in said and
                 "runtime error" not in said, said[-600:])
    found = json.load(open(report, encoding="utf-8")) if os.path.exists(report) else None
    return result.returncode, lines[-2] if len(lines) > 1 else "", found, said


def on_fake(fault, tool, *flags, **how):
    with fakes.Fake(fault, **how) as fake:
        return (*bench(tool, *flags, url=fake.url), fake)


def expect(name, got, code, last):
    checks.check(name, got[0] == code and re.fullmatch(last, got[1]),
                 f"exit {got[0]}, last line {got[1]!r}, wanted {code} {last!r}\n{got[3][-300:]}")
    return got[2]


def check_clean(name, report, fake_url):
    """No endpoint, alias, prompt or reply text in a publishable report."""
    text = json.dumps(report, ensure_ascii=False)
    for secret in [fake_url, "127.0.0.1", fakes.MODEL, FOLDER, "Fibonacci", "matrix", "né",
                   "it broke", "HTTP"]:
        checks.check(f"{name}: no {secret} in the report", secret not in text)


def openai():
    flags = ["--tokens", "8", "--reps", "2", "--temperatures", "0"]
    report = expect("openai", on_fake("", "openai", *flags), 0, "2 rows, 0 failed, 0 unequal")
    row = report["rows"][0]
    checks.check("openai row", set(row) == {"label", "prompt", "temperature", "tokens", "evidence",
                                            "decode_tps_median", "decode_tps_all", "sample",
                                            "ttft_s_median"} and len(row["evidence"]) == 2)
    checks.check("evidence fields", set(row["evidence"][0]) == EVIDENCE)
    checks.check("sample", row["sample"] == "".join(fakes.TEXTS), row["sample"])
    sha = row["evidence"][0]["output_sha256"]
    for fault in ["split", "comments"]:
        other = expect(fault, on_fake(fault, "openai", *flags), 0, "2 rows, 0 failed, 0 unequal")
        checks.check(f"{fault} keeps the text",
                     other["rows"][0]["evidence"][0]["output_sha256"] == sha)
    other = expect("thinks", on_fake("thinks", "openai", *flags), 0, "2 rows, 0 failed, 0 unequal")
    evidence = other["rows"][1]["evidence"][0]
    checks.check("reasoning starts the clock", evidence["ttft_s"] and
                 evidence["output_sha256"] != report["rows"][1]["evidence"][0]["output_sha256"])
    for fault, code in BROKEN.items():
        bad = expect(f"openai {fault}", on_fake(fault, "openai", *flags), 1,
                     "2 rows, 2 failed, 0 unequal")
        row = bad["rows"][0]
        checks.check(f"openai {fault} field", row["evidence"][0]["error"] == code and
                     row["decode_tps_median"] is None and not bad["verdict"]["passed"], row)
    one = expect("openai one_piece", on_fake("one_piece", "openai", *flags), 0,
                 "2 rows, 0 failed, 0 unequal")["rows"][0]
    checks.check("one piece has no rate", one["decode_tps_all"] == [None, None] and
                 one["ttft_s_median"] is None and one["evidence"][0]["tokens"] == 8)
    for fault in UNKNOWN_CACHE:
        row = expect(f"openai {fault}", on_fake(fault, "openai", *flags), 0,
                     "2 rows, 0 failed, 0 unequal")["rows"][0]
        checks.check(f"openai {fault} field", row["evidence"][0]["cache_state"] == "unverified")
    for fault in ["no_hash", "hash_upper"]:
        row = expect(f"openai {fault}", on_fake(fault, "openai", *flags), 0,
                     "2 rows, 0 failed, 0 unequal")["rows"][0]
        checks.check(f"openai {fault} field", row["evidence"][0]["token_sha"] is None)
    row = on_fake("hash_short", "openai", *flags)[2]["rows"][0]
    checks.check("twelve digits are taken", len(row["evidence"][0]["token_sha"]) == 12)


def bodies():
    """What is sent is what section 1.1 says."""
    got = on_fake("", "openai", "--tokens", "8", "--reps", "2", "--temperatures", "0,1")
    raw, chat = got[4].bodies[1], got[4].bodies[10]
    checks.check("greedy body", raw == {
        "model": fakes.MODEL, "prompt": "Write a short Python function that computes the Fibonacci "
        "sequence and explain it.", "max_tokens": 8, "temperature": 0.0, "seed": 1234,
        "stream": True, "stream_options": {"include_usage": True}, "ignore_eos": True}, raw)
    checks.check("sampled chat body", chat["top_k"] == 20 and chat["top_p"] == 0.95 and
                 chat["chat_template_kwargs"] == {"enable_thinking": False} and
                 chat["messages"] == [{"role": "user", "content": "Explain how matrix "
                                       "multiplication uses a GPU in plain English, then give a "
                                       "small numerical example."}] and "draft" not in chat, chat)
    checks.check("seeds", [b["seed"] for b in got[4].bodies[:3]] == [1234, 1234, 1235])
    got = on_fake("", "openai", "--tokens", "8", "--reps", "1", "--no-filters",
                  "--seed-from-prompt")
    checks.check("no filters, no seed", "top_k" not in got[4].bodies[0] and
                 "top_p" not in got[4].bodies[0] and "seed" not in got[4].bodies[0])


def concurrent():
    flags = ["--tokens", "8", "--reps", "1", "--temperatures", "1", "--levels", "4"]
    sure = [*flags, "--alone", "--serial", "--strict"]
    got = on_fake("", "concurrent", *sure, first_s=0.02)
    report = expect("concurrent", got, 0, "2 cells, 0 failed, 0 unequal")
    cell = report["cells"][0]
    wanted = [fakes.token_sha(body) for body in got[4].bodies[1:9:2]]
    checks.check("rows keep the streams' order", len(set(wanted)) == 4 and
                 cell["repetitions"][0]["token_hashes"] == wanted, cell)
    checks.check("counts", cell["alone"] == {"equal": 4, "unequal": 0, "failed": 0,
                                             "unverified": 0} == cell["serial"])
    checks.check("the serial half is plain", got[4].bodies[2]["draft"] is False and
                 got[4].bodies[2]["seed"] == got[4].bodies[1]["seed"] == 1234)
    for fault in BROKEN:
        cell = expect(f"concurrent {fault}", on_fake(fault, "concurrent", *flags), 1,
                      "2 cells, 2 failed, 0 unequal")["cells"][0]
        checks.check(f"concurrent {fault} field", cell["failed"] == 4 and cell["warmup_failed"] and
                     cell["repetitions"][0]["errors"] == [BROKEN[fault]] * 4, cell)
    for fault, field in [("no_hash", "hashes_unverified"), ("one_piece", "unmeasured")]:
        cell = expect(f"strict {fault}", on_fake(fault, "concurrent", *sure), 1,
                      "2 cells, 2 failed, 0 unequal")["cells"][0]
        checks.check(f"strict {fault} field", cell[field] == 4, cell)
        expect(f"lenient {fault}", on_fake(fault, "concurrent", *flags, "--alone"), 0,
               "2 cells, 0 failed, 0 unequal")
    cell = on_fake("no_hash", "concurrent", *sure)[2]["cells"][0]
    checks.check("unverified is not equal", cell["alone"]["unverified"] == 4 and
                 cell["alone"]["equal"] == 0 and cell["serial"]["unverified"] == 4)
    cell = expect("stream 3", on_fake("stream3", "concurrent", *sure, first_s=0.1), 1,
                  "2 cells, 2 failed, 2 unequal")["cells"][0]
    checks.check("stream 3 alone differs", cell["alone"]["unequal"] >= 1 and
                 cell["serial"]["unequal"] == 0, cell)
    cell = expect("drafts differ", on_fake("draft_differs", "concurrent", *sure), 1,
                  "2 cells, 2 failed, 2 unequal")["cells"][0]
    checks.check("drafts differ field", cell["alone"]["unequal"] == 0 and
                 cell["serial"]["unequal"] == 4)
    got = on_fake("stream3", "concurrent", *flags, "--no-seed", "--alone", first_s=0.1)
    checks.check("no seeds, no comparison", got[0] == 0 and "alone" not in got[2]["cells"][0] and
                 "seed" not in got[4].bodies[0])
    got = on_fake("", "concurrent", *flags, "--mixed")
    expect("mixed", got, 0, "1 cells, 0 failed, 0 unequal")
    seeds = sorted((b["seed"], "messages" in b) for b in got[4].bodies[2:])
    checks.check("mixed seeds", seeds == [(1234, False), (1234, True), (1235, False),
                                          (1235, True)], seeds)


def cache():
    flags = ["--tokens", "8", "--streams", "4"]
    need = [*flags, "--require-cold", "--require-reuse"]
    ids = os.path.join(FOLDER, "ids")
    with open(ids, "w", encoding="utf-8") as file:
        json.dump(list(range(5, 45)), file)
    got = on_fake("", "cache", *need, "--prompt-file", ids, "--expected-prompt-tokens", "40",
                  "--max-reuse-ttft", "5")
    report = expect("cache", got, 0, "7 rows, 0 failed, 0 unequal, 0 unmet")
    checks.check("cache rows", [r["phase"] for r in report["rows"]] == ["first"] +
                 ["repeated"] * 2 + ["concurrent"] * 4 and
                 report["rows"][1]["equal_first_tokens"] is True and
                 report["rows"][0]["cache_state"] == "cold" and
                 report["rows"][1]["cache_state"] == "reused" and
                 "equal_first_tokens" not in report["rows"][0] and report["verdict"]["qualified"])
    checks.check("ids are sent", got[4].bodies[0]["prompt"] == list(range(5, 45)))
    check_clean("cache", report, got[4].url)
    for fault, code in BROKEN.items():
        got = on_fake(fault, "cache", *flags)
        row = expect(f"cache {fault}", got, 1, "7 rows, 7 failed, 0 unequal, 0 unmet")["rows"][1]
        checks.check(f"cache {fault} field", row["error"] == code and
                     row["equal_first_tokens"] is None and row["equal_first_output"] is None, row)
        check_clean(f"cache {fault}", got[2], got[4].url)
    for fault in UNKNOWN_CACHE:
        row = expect(f"cache {fault}", on_fake(fault, "cache", *need), 1,
                     "7 rows, 0 failed, 0 unequal, 3 unmet")["rows"][1]
        checks.check(f"cache {fault} field", row["cache_state"] == "unverified")
        expect(f"cache {fault} not required", on_fake(fault, "cache", *flags), 0,
               "7 rows, 0 failed, 0 unequal, 0 unmet")
    row = expect("cache no_hash", on_fake("no_hash", "cache", *flags), 0,
                 "7 rows, 0 failed, 0 unequal, 0 unmet")["rows"][1]
    checks.check("no hash, no equality", row["equal_first_tokens"] is None and
                 row["equal_first_output"] is True)
    got = on_fake("stream3", "cache", *flags, first_s=0.1)
    checks.check("cache stream 3", got[0] == 1 and re.fullmatch(
        "7 rows, 0 failed, [12] unequal, 0 unmet", got[1]) and
        any(r.get("equal_first_tokens") is False for r in got[2]["rows"]), got[1])
    rows = expect("cache other text", on_fake("other_text", "cache", *flags), 1,
                  "7 rows, 0 failed, [4-6] unequal, 0 unmet")["rows"]
    checks.check("equal tokens, other text", rows[1]["equal_first_tokens"] is True and
                 rows[1]["equal_first_output"] is False)
    expect("cache one piece", on_fake("one_piece", "cache", *need, "--max-reuse-ttft", "5"), 1,
           "7 rows, 0 failed, 0 unequal, 2 unmet")
    expect("cache wrong length", on_fake("", "cache", *flags, "--expected-prompt-tokens", "9"), 1,
           "7 rows, 0 failed, 0 unequal, 7 unmet")


def turns():
    path = os.path.join(FOLDER, "turns")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"system": "You are a careful helper of few words", "edit": "And a third?",
                   "conversations": [["Name one river", "Another?"], ["Name one lake"]]}, file)
    for fault, other, code, last in [
            ("", "", 1, "7 rows, 0 failed, 0 unequal, [1-9] unmet"),
            ("", "cold", 0, "7 rows, 0 failed, 0 unequal, 0 unmet"),
            ("no_hash", "cold", 1, "7 rows, 0 failed, 0 unequal, 0 unmet"),
            ("cut", "cold", 1, "7 rows, 7 failed, 0 unequal, [0-9] unmet"),
            ("cached_above", "cold", 1, "7 rows, 0 failed, 0 unequal, 5 unmet")]:
        with fakes.Fake(other, cached=other != "cold") as reference:
            got = on_fake(fault, "cache", "--tokens", "8", "--turns", path, "--reference",
                          reference.url, "--require-reuse")
            report = expect(f"turns {fault} {other}", got, code, last)
            if not fault and other:
                rows = [(r["phase"], r["conversation"], r["turn"]) for r in report["rows"]]
                checks.check("turns rows", rows == [
                    ("turn", 0, 0), ("turn", 0, 1), ("regenerate", 0, 1), ("edited", 0, 1),
                    ("turn", 1, 0), ("regenerate", 1, 0), ("edited", 1, 0)], rows)
                roles = [m["role"] for m in got[4].bodies[1]["messages"]]
                checks.check("replies are carried", roles == ["system", "user", "assistant", "user"]
                             and got[4].bodies[1]["messages"][2]["content"] ==
                             "".join(fakes.TEXTS))
                check_clean("turns", report, got[4].url)


def fairness():
    flags = ["--active", "2", "--tokens", "120", "--words", "200", "--short", "1"]
    how = {"gap_s": 0.002, "word_s": 0.0003}
    got = on_fake("", "fairness", *flags, "--max-gap", "9", "--min-decode-share", "0.01",
                  "--max-short-ttft", "9", **how)
    report = expect("fairness", got, 0, "4 replies, 0 unequal, 0 unverified, 0 limits broken")
    checks.check("fairness figures", [r["phase"] for r in report["rows"]] ==
                 ["running", "running", "long", "short"] and report["verdict"]["gap_s_max"] > 0 and
                 report["verdict"]["tps_before"] > 0 and report["verdict"]["tps_during"] > 0,
                 report["verdict"])
    expect("fairness limit", on_fake("", "fairness", *flags, "--max-gap", "0.000001", **how), 1,
           "4 replies, 0 unequal, 0 unverified, 1 limits broken")
    expect("fairness no_hash", on_fake("no_hash", "fairness", *flags, **how), 1,
           "4 replies, 0 unequal, 4 unverified, 0 limits broken")
    expect("fairness stream 3", on_fake("stream3", "fairness", *flags, **how), 1,
           "4 replies, [1-9] unequal, 0 unverified, 0 limits broken")
    for fault, why in [*((f, "reply 0 failed") for f in BROKEN), ("one_piece", "was not live"),
                       *((f, "not known to be uncached") for f in UNKNOWN_CACHE)]:
        got = on_fake(fault, "fairness", *flags, **how)
        checks.check(f"fairness {fault} refuses", got[0] == 1 and got[2] is None and
                     "no report: " in got[3] and why in got[3], got[:4])


def logprobs():
    flags = ["--tokens", "6"]
    got = on_fake("", "logprobs", *flags)
    report = expect("logprobs", got, 0, "92 comparisons, 0 failed, 0 unequal, 0 unverified")
    checks.check("logprobs rows", len(report["rows"]) == 92 and
                 {r["phase"] for r in report["rows"]} ==
                 {"without", "plain", "repeated", "resumed", "company"} and
                 report["rows"][1]["rows_compared"] == 6, report["rows"][1])
    check_clean("logprobs", report, got[4].url)
    for fault in BROKEN:
        if fault in ("no_done", "not_json", "long_line"):
            continue
        expect(f"logprobs {fault}", on_fake(fault, "logprobs", *flags), 1,
               "92 comparisons, 92 failed, 0 unequal, 0 unverified")
    expect("logprobs no_hash", on_fake("no_hash", "logprobs", *flags), 1,
           "92 comparisons, 0 failed, 0 unequal, 92 unverified")
    expect("logprobs drafts", on_fake("draft_differs", "logprobs", *flags), 1,
           "92 comparisons, 0 failed, 18 unequal, 0 unverified")
    expect("logprobs rows", on_fake("rows_differ", "logprobs", *flags), 1,
           "92 comparisons, 0 failed, 18 unequal, 0 unverified")
    expect("logprobs cache", on_fake("cached_above", "logprobs", *flags), 1,
           "92 comparisons, 0 failed, 0 unequal, 18 unverified")
    got = on_fake("stream3", "logprobs", *flags, first_s=0.02)
    checks.check("logprobs stream 3", got[0] == 1 and re.search(" [1-9]d* unequal", got[1]) and
                 any(r["phase"] == "company" and r["equal"] is False for r in got[2]["rows"]),
                 got[1])


def logits():
    """The fake prints -0.1 for every token: logits that say so, others, and files that are none."""
    path, right = os.path.join(FOLDER, "logits"), [5 - 0.1, 5 + math.log(1 - math.exp(-0.1))]
    for rows, code, last in [
            ([right] * 6, 0, "93 comparisons, 0 failed, 0 unequal, 0 unverified"),
            ([right] * 5 + [[right[0] + 1e-4, right[1]]], 1,
             "93 comparisons, 0 failed, 1 unequal, 0 unverified"),
            ([right] * 5, 1, "93 comparisons, 0 failed, 0 unequal, 1 unverified"),
            ([right] * 5 + [[]], 1, "")]:
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"prompt": 2, "ids": [0] * len(rows), "logits": rows}, file)
        got = on_fake("", "logprobs", "--tokens", "6", "--logits", path)
        checks.check(f"logits {last}", got[0] == code and (not last or got[1] == last) and
                     (last or "a row of logits for each id" in got[3]), got[:4])


def memory():
    flags = ["--prompts", "3", "--length", "300", "--tokens", "16"]
    good = "3 prompts, 0 failed, 0 missed, 0 not cold, 0 too short, memory "
    got = on_fake("", "memory", *flags, "--watch", str(os.getpid()))
    report = expect("memory watched", got, 1, good + "over")
    checks.check("watched peak", report["verdict"]["watched_peak_bytes"] > 1 << 20)
    report = expect("memory", on_fake("", "memory", *flags), 0, good + "within")
    checks.check("memory figures", report["verdict"]["peak_over_plan"] == 0.9 and
                 report["verdict"]["watched_peak_bytes"] is None and
                 [round(r["depth"], 2) for r in report["rows"]] == [0.05, 0.5, 0.95])
    expect("memory over", on_fake("over_plan", "memory", *flags), 1, good + "over")
    expect("memory unknown", on_fake("no_memory", "memory", *flags), 1, good + "unverified")
    expect("memory missed", on_fake("miss", "memory", *flags), 1,
           "3 prompts, 0 failed, 3 missed, 0 not cold, 0 too short, memory within")
    for fault in UNKNOWN_CACHE:
        expect(f"memory {fault}", on_fake(fault, "memory", *flags), 1,
               "3 prompts, 0 failed, 0 missed, 3 not cold, 0 too short, memory within")
    for fault in BROKEN:
        got = on_fake(fault, "memory", *flags)
        checks.check(f"memory {fault} refuses", got[0] == 1 and got[2] is None and
                     "no report" in got[3], got[:4])


def layers():
    """Kinds, shares and limits of a model that the tool runs, of files and of made-up weights."""
    small = ["--rows", "32", "--context", "300", "--threads", "1"]
    report = expect("layers", bench("layers", *small), 0, "8 layers: linear maps .* tokens/s")
    rows = report["rows"]
    checks.check("layers rows", [row["kind"] for row in rows[::2]] == [
        "window", "window-engram", "ratio2-source", "ratio2", "ratio2-engram",
        "ratio1-source-candidates", "ratio1", "ratio1-index-restricted", "head"], rows)
    for row in rows:
        total = sum(kernel["share"] for kernel in row["kernels"])
        checks.check("layers shares", abs(total - 1) < 1e-6, (row["kind"], total))
    indexed = {row["kind"] for row in rows for kernel in row["kernels"]
               if kernel["kernel"] == "index_select"}
    checks.check("layers indexed", indexed == {
        "ratio2-source", "ratio1-source-candidates", "ratio1-index-restricted"}, indexed)
    made = expect("layers made up", bench("layers", *small, "--dummy-weights", "1", "--layers",
                                          "6"), 0, "2 layers: .*")
    checks.check("layers needed", [row["kind"] for row in made["rows"]] ==
                 ["ratio1-source-candidates"] * 2 + ["ratio1"] * 2 + ["head"], made["rows"])
    estimates = made["verdict"]["estimates"]
    checks.check("layers estimates", [e["bandwidth"] for e in estimates] == [2e11, 4.6e11, 9e11]
                 and estimates[0]["decode_tps"] < estimates[2]["decode_tps"], estimates)
    for flag, limit in [("--min-linear", "1"), ("--max-attention", "0")]:
        broken = expect(flag, bench("layers", *small, flag, limit), 1, "8 layers: .*")
        checks.check(f"{flag} fails", broken["verdict"]["passed"] is False, broken["verdict"])


def slower_run(name, code, last, *flags, drafts=2, plain=8, fault=""):
    log = os.path.join(FOLDER, "log-" + name)
    command = f"{sys.executable} -S -E {FAKE} --log {log} --drafts-gap {drafts} " \
              f"--plain-gap {plain}" + (f" --fault {fault}" if fault else "")
    got = bench("never-slower", "--serve", command, "--tokens", "8", "--temperatures", "0",
                "--levels", "1", "--reps", "1", *flags)
    report = expect(f"never-slower {name}", got, code, last)
    if report:
        check_clean(name, report, "http://")
    return report, open(log, encoding="utf-8").read().split("\n")[:-1] \
        if os.path.exists(log) else []


def never_slower():
    ids = os.path.join(FOLDER, "cold")
    with open(ids, "w", encoding="utf-8") as file:
        json.dump(list(range(30)), file)
    report, log = slower_run("pass", 0, "3 cells, 0 slower, 0 unequal, 0 noisy", "--cold-prompt",
                             ids)
    modes = [line.split()[1] for line in log[::2]]
    checks.check("one server at a time", len(log) % 2 == 0 and
                 all(line.startswith("start") for line in log[::2]) and
                 all(line.startswith("stop") for line in log[1::2]), log[:6])
    blocks = [c["blocks"] for c in report["cells"]]
    a, b = ["drafts", "plain", "plain", "drafts"], ["plain", "drafts", "drafts", "plain"]
    checks.check("the order alternates", modes == a * blocks[0] + b * blocks[1] + a * blocks[2],
                 modes)
    checks.check("requests a server", [l.split()[-1] for l in log[1::2]] ==
                 ["2"] * 4 * (blocks[0] + blocks[1]) + ["1"] * 4 * blocks[2])
    cell = report["cells"][0]
    checks.check("five blocks decide", min(blocks) >= 5 and cell["ratio"] > 1.3 and
                 cell["ratio_low"] > 1 and cell["verdict"] == "pass" and
                 len(cell["drafts"]["all"]) == 2 * blocks[0] and
                 report["cells"][2]["kind"] == "cold", cell)


def slower():
    report, _ = slower_run("slower", 1, "2 cells, 2 slower, 0 unequal, 0 noisy", "--blocks", "5",
                           drafts=8, plain=2)
    checks.check("slower", report["cells"][1]["verdict"] == "slower" and
                 report["cells"][1]["ratio_high"] < 0.97)


def never_slower_faults():
    few = ["--blocks", "1", "--blocks-max", "1"]
    report, log = slower_run("noisy", 1, "2 cells, 0 slower, 0 unequal, 2 noisy", *few,
                             "--levels", "2")
    checks.check("noise is no pass", len(log) == 16 and report["cells"][0]["verdict"] == "noisy")
    report, log = slower_run("unequal", 1, "2 cells, 0 slower, 2 unequal, 0 noisy",
                             fault="draft_differs")
    checks.check("unequal ends a cell", len(log) == 16 and report["cells"][0]["hashes"] ==
                 "unequal")
    slower_run("unverified", 1, "2 cells, 0 slower, 0 unequal, 0 noisy, 2 unverified",
               fault="no_hash")
    for fault in ["one_piece", "usage_string", "no_done", "reset"]:
        report, _ = slower_run(fault, 1, "2 cells, 0 slower, 0 unequal, 0 noisy, 2 failed", *few,
                               fault=fault)
        checks.check(f"{fault} verdict", report["cells"][0]["verdict"] == "failed")
    report, log = slower_run("dead", 1, "1 cells, 0 slower, 0 unequal, 0 noisy, 1 failed",
                             fault="no_start")
    checks.check("a dead server ends the run", log == [] and len(report["cells"]) == 1)


def usage():
    for name, pattern, *flags in [
            ("no tool", "no tool: expected openai"),
            ("unknown tool", "fly: expected openai", "fly"),
            ("no base", "BASE is missing", "openai"),
            ("no model", "MODEL is missing", "cache", "http://127.0.0.1:1"),
            ("bad base", "expected http://HOST:PORT", "openai", "ftp://x", "m"),
            ("bad list", "--levels 0: expected up to", "concurrent", "http://x", "m", "--levels",
             "0"),
            ("bad temperature", "--temperatures 1,,2", "openai", "http://x", "m",
             "--temperatures", "1,,2"),
            ("strict without seeds", "cannot go with --strict", "concurrent", "http://x", "m",
             "--no-seed", "--strict"),
            ("turns alone", "--turns needs --reference", "cache", "http://x", "m", "--turns", "f"),
            ("foreign flag", "--mixed: unknown option", "openai", "http://x", "m", "--mixed"),
            ("serve", "--serve .* is missing", "never-slower"),
            ("prompts", "--prompts is missing", "memory", "http://x", "m"),
            ("two models", "b: one argument too many", "layers", "a", "b"),
            ("layers list", "--layers 2,1: expected ascending", "layers", "--layers", "2,1"),
            ("no such layer", "the model has layers 0 to 7", "layers", "--context", "300",
             "--rows", "16", "--layers", "8"),
            ("short context", "--context 300: expected more than the 300 rows", "layers",
             "--context", "300", "--rows", "300"),
            ("long context", "--context 32768: expected .* at most the model's 4096", "layers"),
            ("rows of tables", "--engram-rows needs --dummy-weights", "layers", "--engram-rows",
             "2000")]:
        result = subprocess.run([BINARY, "bench", *flags], capture_output=True, check=False)
        checks.check(f"usage {name}", result.returncode == 2 and
                     re.search(pattern, result.stderr.decode()), result)
    for tool in ["", "openai", "concurrent", "cache", "never-slower", "fairness", "logprobs",
                 "memory", "layers"]:
        result = subprocess.run([BINARY, "bench", *([tool] if tool else []), "--help"],
                                capture_output=True, check=False)
        checks.check(f"{tool} --help", result.returncode == 0 and b"usage: lanefold bench" in
                     result.stdout)
    refused = bench("openai", "--tokens", "4", "--reps", "1", url="http://127.0.0.1:9")
    checks.check("nothing listens", refused[0] == 1 and refused[1] == "4 rows, 4 failed, 0 unequal"
                 and refused[2]["rows"][0]["evidence"][0]["error"] == "transport", refused)


def real_server():
    """Our own server's replies equal themselves in company and alone."""
    with Server() as server:
        expect("real openai", bench("openai", "--tokens", "32", "--reps", "2", url=server.url), 0,
               "4 rows, 0 failed, 0 unequal")
        report = expect("real concurrent", bench(
            "concurrent", "--tokens", "64", "--temperatures", "0,1", "--levels", "1,4", "--reps",
            "1", "--alone", "--serial", "--strict", url=server.url), 0,
            "8 cells, 0 failed, 0 unequal")
        checks.check("real counts", sum(c["alone"]["equal"] for c in report["cells"]) == 20 and
                     sum(c["serial"]["equal"] for c in report["cells"]) == 14, report["verdict"])


def run_together(threads, parts):
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda part: checks.run(part.__name__, lambda _: part()), parts))


def main():
    # The fakes sleep most of the time, so the parts overlap.
    parts = [usage, bodies, openai, concurrent, cache, turns, fairness, logprobs, logits, memory,
             layers, never_slower_faults]
    run_together(3, parts)
    # Rates are measured with little else running.
    run_together(2, [never_slower, slower])
    checks.run("real_server", lambda _: real_server())
    checks.end()


main()
