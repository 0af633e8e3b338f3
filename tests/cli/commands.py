"""Do the commands do what --help says, and does bad use get exit 2 and a sentence that names it?"""
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

root, binary = os.environ["LF_SOURCE_ROOT"], os.environ["LF_BINARY"]
demo = f"{root}/models/demo"
passed = failed = 0


def run(*args, text=""):
    return subprocess.run([binary, *args], input=text.encode(), capture_output=True, timeout=120)


def check(ok, what, result=None):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    if not ok:
        print("FAILED:", what)
        if result is not None:
            print(result.returncode, result.stdout[-400:], result.stderr[-400:])


def refused(what, code, pattern, *args, text=""):
    result = run(*args, text=text)
    line = result.stderr.decode()
    check(result.returncode == code and re.search(pattern, line) and result.stdout == b"", what,
          result)
    check("Sanitizer" not in line, what + ": clean", result)


def check_help():
    for command in ["serve", "run", "plan", "info", "tokenize", "score", "verify"]:
        result = run(command, "--help")
        check(result.returncode == 0 and b"usage: lanefold " + command.encode() in result.stdout,
              command + " --help", result)
    check(run("--help").returncode == 0, "--help")
    check(run("--version").stdout.startswith(b"lanefold "), "--version")


def check_usage():
    refused("no command", 2, "usage", text="")
    refused("unknown command", 2, "unknown command fly", "fly")
    refused("unknown option", 2, "--speed: unknown option", "serve", "--speed", "9")
    refused("value missing", 2, "--port: a value is missing", "serve", "--port")
    refused("port range", 2, "--port 70000: expected a whole number from 0 to 65535", "serve",
            "--port", "70000")
    refused("port words", 2, "--port eighty", "serve", "--port=eighty")
    refused("several devices", 2, "several devices are not supported", "run", "-p", "x",
            "--device", "cuda:0,1")
    refused("choice", 2, "--isa sse9: expected one of", "run", "-p", "x", "--isa", "sse9")
    refused("flag takes no value", 2, "--raw takes no value", "run", "--raw=1")
    refused("too many", 2, "one argument too many", "run", "a", "b")
    refused("temperature", 2, "--temperature 3", "run", "-p", "x", "--temperature", "3")
    refused("nan", 2, "--temperature nan", "run", "-p", "x", "--temperature", "nan")
    refused("effort", 2, "effort", "run", "-p", "x", "--reasoning-effort", "warp")
    refused("context", 2, "a context of 5000: the model has 4096", "run", "-p", "x", "--context",
            "5000")
    refused("no model", 1, "hf download org/absent", "run", "org/absent", "-p", "x")
    refused("score needs a file", 2, "FILE is missing", "score")


def check_run():
    asked = ["run", "-p", "What is the capital of Norway?", "--no-thinking", "--temperature", "0"]
    result = run(*asked)
    check(result.returncode == 0 and b"Oslo" in result.stdout, "run answers", result)
    first, again = run(*asked, "--json"), run(*asked, "--json", "--threads", "1")
    reply = json.loads(first.stdout)
    check("Oslo" in reply["content"] and reply["token_ids"][-1] == 1, "run --json", first)
    check(reply["token_sha256"] == json.loads(again.stdout)["token_sha256"],
          "threads do not change the reply", again)
    portable = json.loads(run(*asked, "--json", "--isa", "portable").stdout)
    check(portable["token_sha256"] == reply["token_sha256"], "the ISA does not change the reply")
    sampled = [run("run", "-p", "Hello!", "--json", "--seed", seed, "--max-tokens", "40").stdout
               for seed in ("1", "1", "2")]
    ids = [json.loads(text)["token_ids"] for text in sampled]
    check(ids[0] == ids[1], "a seed repeats its reply")
    raw = run("run", "--raw", "-p", "def fib(n):\n", "--temperature", "0", "--max-tokens", "64")
    check(b"return" in raw.stdout, "run --raw", raw)
    thinking = json.loads(run("run", "-p", "What is 47 + 38?", "--temperature", "0",
                              "--json").stdout)
    check(thinking["reasoning"] and "85" in thinking["content"], "run thinks")
    refused("prompt past the context", 1, "maximum context length is 16 tokens", "run", "-p",
            "word " * 40, "--context", "16")


def check_tokenize():
    text = "Straße 12345\n\n  def f(x): <think>"
    ids = run("tokenize", text=text).stdout.decode()
    check(run("tokenize", "--decode", text=ids).stdout.decode() == text, "tokenize round trip")
    check("2288" not in ids.split(), "control text stays text")
    special = run("tokenize", "--parse-special", text=text).stdout.decode().split()
    check("2288" in special, "--parse-special finds <think>")
    refused("bad id", 1, "byte 2 of standard input: expected a token id below 2304", "tokenize",
            "--decode", text="5 99999")
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/chat.json"
        body = {"messages": [{"role": "user", "content": "Hi"}], "thinking": {"type": "disabled"}}
        open(path, "w").write(json.dumps(body))
        result = run("tokenize", "--chat", path)
        check(result.stdout.split()[:2] == [b"0", b"2286"], "tokenize --chat", result)
        check(b"Hi" in run("tokenize", "--chat", path, "--text").stdout, "--chat --text")
        open(path, "w").write('{"messages": [}')
        refused("bad chat JSON", 1, "byte 14|offset 14", "tokenize", "--chat", path)


def check_score():
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/text"
        open(path, "w").write("Mira lives in Oslo. Mira has a red hat.")
        result = run("score", path, "--json")
        scored = json.loads(result.stdout)
        total = sum(token["logprob"] for token in scored["logprobs"])
        check(abs(total - scored["logprob"]) < 1e-6 and scored["tokens"] == len(scored["logprobs"]),
              "score sums", result)
        check(math.isclose(scored["perplexity"], math.exp(-total / scored["tokens"]), rel_tol=1e-6),
              "score perplexity", result)
        check(all(token["logprob"] <= 0 for token in scored["logprobs"]), "log-probabilities")
        open(path, "wb").write(b"ok \xff")
        refused("score of invalid UTF-8", 1, "UTF-8", "score", path)
        open(path, "w").write("")
        refused("score of nothing", 1, "empty", "score", path)
        refused("score of a folder", 1, "not a regular file", "score", folder)


def check_keys():
    environment = dict(os.environ, LANEFOLD_API_KEY="first,second")
    server = subprocess.Popen([binary, "serve", "--port", "0"], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, env=environment)
    url = server.stdout.readline().split()[-1]
    for key, status in (("first", 200), ("second", 200), ("first,second", 401), (None, 401)):
        request = urllib.request.Request(url + "/v1/models")
        if key:
            request.add_header("Authorization", "Bearer " + key)
        try:
            got = urllib.request.urlopen(request).status
        except urllib.error.HTTPError as error:
            got = error.code
        check(got == status, f"key {key} of LANEFOLD_API_KEY gives {status}")
    server.terminate()
    check(server.wait(30) == 0, "serve ends with 0 on SIGTERM")


def check_info():
    result = run("info", "--json")
    info = json.loads(result.stdout)
    check(info["layers"] == 8 and info["linears"]["mxfp4"] > 0 and info["text"], "info", result)
    check(b"mxfp4" in run("info", demo).stdout, "info of a folder")
    with tempfile.TemporaryDirectory() as folder:
        model = folder + "/model"
        shutil.copytree(demo, model)
        shard = model + "/model-00002-of-00005.safetensors"
        data = open(shard, "rb").read()
        open(shard, "wb").write(data[:-1])
        for command in (["info", model], ["run", model, "-p", "x"]):
            refused("truncated shard", 1, "model-00002-of-00005", *command)
        open(shard, "wb").write(data)
        os.remove(model + "/tokenizer.json")
        refused("no tokenizer", 1, "tokenizer.json", "run", model, "-p", "x")


def plan_of(*args):
    result = run("plan", demo, "--json", *args)
    return result.returncode, json.loads(result.stdout)


def gib(size):
    return repr(size / 2**30)


def check_plan():
    code, plan = plan_of()
    counted = sum(size for name, size in plan["lines"].items() if name != "engram_tables")
    check(code == 0 and plan["fits"] and plan["need_bytes"] == counted, "plan adds up")
    check(plan["context"] == 4096 and plan["parallel"] == 4, "all of the context fits")
    check(plan["lines"]["drafter"] > 0 and plan_of("--no-drafts")[1]["lines"]["drafter"] == 0,
          "the drafter counts where it is loaded")
    # The cache that nobody sized follows the budget.
    held, budget = plan["lines"]["prompt_cache"], plan["budget_bytes"]
    check(0 < held <= min(budget / 8, 16 * 2**30), "a cache of an eighth")
    named = plan_of("--prompt-cache-gib", "0.25")[1]["lines"]
    check(named["prompt_cache"] == 2**28, "a cache as named")
    check(plan_of("--prompt-cache-gib", "0")[1]["lines"]["prompt_cache"] == 0, "no cache")
    limit = ["--memory-limit-gib", "8"]
    plan, again = plan_of(*limit)[1], plan_of(*limit)[1]
    del plan["available_bytes"], again["available_bytes"]
    check(again == plan, "the same flags and budget give the same plan (M-5)")
    table = run("plan", *limit).stdout.decode()
    check(f"{plan['need_bytes']}" in table and "KV pages promised" in table, "plan as a table")


def check_plan_limits():
    fixed = ["--parallel", "64", "--prompt-cache-gib", "0", "--drafts", "on",
             "--chunk-rows", "512"]
    need = plan_of(*fixed, "--context", "2048")[1]["need_bytes"]
    limit, less = ["--memory-limit-gib", gib(need)], ["--memory-limit-gib", gib(need - 1)]
    code, auto = plan_of(*fixed, *limit)
    check(code == 0 and 2048 <= auto["context"] < 2200 and auto["need_bytes"] <= need,
          "without --context the largest that fits")
    more = ["--context", str(auto["context"] + 1)]
    code, over = plan_of(*fixed, *limit, *more)
    check(code == 1 and not over["fits"], "one position more does not fit")
    check(len(over["ways"]) >= 3 and "ways" not in auto, "a refusal in JSON has its ways out")
    result = run("plan", *fixed, *limit, *more)
    text = result.stdout.decode()
    check(result.returncode == 1 and b"are missing" in result.stderr, "plan refuses", result)
    check(f"--context {auto['context']}:" in text, "guidance names the largest context", result)
    fewer = int(re.search(r"^--parallel (\d+): ", text, re.M)[1])
    asked = [*fixed[2:], *limit, *more, "--parallel"]
    check(plan_of(*asked, str(fewer))[0] == 0 and plan_of(*asked, str(fewer + 1))[0] == 1,
          "guidance names the most requests", result)
    larger = re.search(r"^--memory-limit-gib (\S+): ", text, re.M)[1]
    check(plan_of(*fixed, *more, "--memory-limit-gib", larger)[0] == 0,
          "guidance names the memory", result)
    asked = [*fixed[:4], "--context", "2048"]
    check(plan_of(*asked, *limit)[1]["lines"]["drafter"] > 0, "auto keeps a drafter that fits")
    code, left = plan_of(*asked, *less)
    check(code == 0 and left["chunk_rows"] == 256 and left["lines"]["drafter"] > 0,
          "a chunk that nobody named gives way first")
    asked = [*asked, "--chunk-rows", "512"]
    code, left = plan_of(*asked, *less)
    check(code == 0 and left["lines"]["drafter"] == 0, "auto leaves one out that does not")
    check(plan_of(*asked, *less, "--drafts", "on")[0] == 1, "--drafts on refuses then")
    code, left = plan_of(*fixed[:2], *fixed[4:], "--context", "2048", "--memory-limit-gib",
                         gib(need + 2**20))
    check(code == 0 and 0 < left["lines"]["prompt_cache"] <= 2**20 + 1 and
          left["lines"]["drafter"] > 0, "a cache that nobody sized takes what is left")


def check_plan_parallel():
    """L-33: auto takes what fits, one more would not; a named number is a demand."""
    fixed = ["--prompt-cache-gib", "0", "--drafts", "on", "--chunk-rows", "512"]
    for context in ([], ["--context", "1000"]):
        for parallel in (1, 13, 64):
            named = ["--parallel", str(parallel), *(context or ["--context", "4096"])]
            need = plan_of(*fixed, *named)[1]["need_bytes"]
            asked = [*fixed, *context, "--parallel", "auto", "--memory-limit-gib"]
            code, plan = plan_of(*asked, gib(need))
            check(code == 0 and plan["parallel"] == parallel, f"auto takes the {parallel} that fit")
            code, plan = plan_of(*asked, gib(need - 1))
            check(parallel == 1 or plan["parallel"] == parallel - 1, f"and fewer than {parallel}")
            check(plan_of(*fixed, *named, "--memory-limit-gib", gib(need - 1))[0] == 1,
                  f"a named {parallel} is a demand")
    check(b"64 requests (the most that fit) of 4096" in run("plan", "--parallel", "auto").stdout,
          "auto says what it took")
    refused("parallel as a word", 2, "expected auto or a whole number", "plan", "--parallel", "few")


def check_placement():
    line = r"\d+ threads?, \d+ cores?, \d+ NUMA nodes?: (bound|not bound, \w.*)$"
    check(re.search(r"^this machine +" + line, run("info").stdout.decode(), re.M), "info tells")
    check(re.search("^" + line, run("plan").stdout.decode(), re.M), "plan tells")
    one = min(os.sched_getaffinity(0))
    masked = subprocess.run([binary, "plan"], capture_output=True, timeout=120,
                            preexec_fn=lambda: os.sched_setaffinity(0, {one}))
    check(b"\n1 thread, 1 core, 1 NUMA node: not bound" in masked.stdout, "the mask counts", masked)
    other = dict(os.environ, HWLOC_SYNTHETIC="package:2 numa:2 core:8 pu:2")
    large = subprocess.run([binary, "plan", "--memory-limit-gib", "8"], env=other,
                           capture_output=True, timeout=120)
    check(b"\n32 threads, 32 cores, 4 NUMA nodes: not bound, hwloc describes" in large.stdout,
          "cores count, not their hardware threads", large)
    asked = ["run", "-p", "Hi", "--temperature", "0", "--max-tokens", "16", "--json", "--pin"]
    bound, free = (json.loads(run(*asked, *pin).stdout)["token_sha256"]
                   for pin in (["on"], ["off", "--threads", "3"]))
    check(bound == free, "--pin does not change the reply")
    refused("more bound threads than processors", 2, "--pin on: 1024 threads, this process may use",
            "plan", "--pin", "on", "--threads", "1024")
    refused("pin to what", 2, "--pin yes: expected one of", "serve", "--pin", "yes")


def check_memory_usage():
    for flag in ("--memory-limit-gib", "--reserve-gib"):
        for bad in ("0", "-1", "nan", "much"):
            refused(f"{flag} {bad}", 2, f"{flag} {bad}: expected a number", "serve", flag, bad)
    refused("limit and reserve", 2, "one of them", "plan", "--memory-limit-gib", "8",
            "--reserve-gib", "1")
    refused("context past the model", 2, "the model has 4096", "plan", "--context", "4097")
    # M-3: the refusal comes before anything is loaded.
    result = run("serve", demo, "--memory-limit-gib", "0.02", "--port", "0")
    lines = result.stderr.decode()
    check(result.returncode == 1 and "does not fit" in lines and
          len(re.findall(r"plan: (?:--|no smaller)", lines)) >= 3, "serve refuses", result)
    check(b"listening" not in result.stdout and "memory:" not in lines, "before load", result)


def check_made_checkpoint():
    maker = os.environ["LF_MAKE_CHECKPOINT"]
    with tempfile.TemporaryDirectory() as folder:
        for name in ("config.json", "tokenizer.json"):
            shutil.copy(f"{demo}/{name}", folder)
        make = [maker, folder, "11", "3000000"]
        made = subprocess.run(make, capture_output=True, timeout=120)
        files = sorted(name for name in os.listdir(folder) if name.endswith(".safetensors"))
        check(made.returncode == 0 and len(files) > 3, "a checkpoint in several files", made)
        asked = ["run", folder, "-p", "Hi", "--temperature", "0", "--max-tokens", "24", "--json"]
        mapped, copied, other = (run(*asked, *flags) for flags in
                                 ([], ["--dummy-weights", "11"], ["--dummy-weights", "12"]))
        sums = [json.loads(reply.stdout)["token_sha256"] for reply in (mapped, copied, other)]
        check(sums[0] == sums[1] != sums[2], "files and memory give the same tokens", mapped)
        again = subprocess.run(make, capture_output=True, timeout=120)
        check(again.returncode == 1 and b"cannot make model.safetensors.index.json" in again.stderr,
              "a folder with weights is refused", again)
    for bad in ([], ["/nowhere", "x"], ["/nowhere", "1", "0"]):
        check(subprocess.run([maker, *bad], capture_output=True).returncode == 2, "bad use")


def check_verify():
    result = run("verify", demo, "--layers", "5", "--threads", "2")
    text = result.stdout.decode()
    check(re.search(r"^layer 5: \d+ stages, 0 over; mapped == copied: 0 differing$", text, re.M),
          "verify judges a layer", result)
    last = re.search(r"^SUMMARY 1 layers, 3 draft blocks, \d+ stages, 0 over, (\d+) missing, 0 "
                     "differing", text, re.M)
    check(last and result.returncode == (last[1] != "0"), "verify sums up", result)
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(f"{demo}/config.json", folder)
        result = run("verify", folder, "--dummy-weights", "2", "--layers", "5,6")
        text = result.stdout.decode()
        check("layer 6: " in text and "0 over, " in text.splitlines()[-1],
              "verify needs no weights and no tokenizer", result)
        refused("a layer without its source", 2, "layer 6 reads the cache of layer 5", "verify",
                folder, "--dummy-weights", "2", "--layers", "6")
    refused("layers out of order", 2, "--layers 3,2: expected ascending", "verify", demo,
            "--layers", "3,2")
    refused("a layer past the last", 2, "layer 8: the model has layers 0 to 7", "verify", demo,
            "--layers", "8")


def check_dummy_weights():
    release = [f"{root}/tests/data", "--dummy-weights", "3"]
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(f"{demo}/config.json", folder)
        refused("text without a tokenizer", 1, "tokenizer.json is not there: made-up weights",
                "run", folder, "-p", "Hi", "--dummy-weights", "3")
        shutil.copy(f"{demo}/tokenizer.json", folder)
        asked = ["run", folder, "-p", "Hi", "--temperature", "0", "--max-tokens", "12", "--json"]
        seeds = [["3"], ["3", "--threads", "1"], ["4"], ["3", "--layers", "3"]]
        ids = [json.loads(run(*asked, "--dummy-weights", *seed).stdout)["token_ids"]
               for seed in seeds]
        check(ids[0] == ids[1], "a seed repeats its weights")
        check(ids[2] != ids[0] != ids[3], "another seed, fewer layers: another model")
        refused("no weights at all", 1, "any ..safetensors file", *asked)
    fixed = ["--context", "1000", "--parallel", "1", "--json"]
    one, two = (json.loads(run("plan", *release, "--layers", layers, *fixed).stdout)
                for layers in ("1", "3"))
    table = 1048576 * 264
    check(two["lines"]["engram_tables"] == 0 and
          two["lines"]["weights"] > 2 * 7e9 + one["lines"]["weights"] + table,
          "the release's layers and a cut table count")
    refused("layers of real weights", 2, "--layers needs --dummy-weights", "plan", "--layers", "1")
    refused("too many layers", 2, "of the 40 layers of config.json", "serve", *release, "--layers",
            "41")
    refused("a seed", 2, "--dummy-weights x: expected a whole number", "plan", demo,
            "--dummy-weights", "x")


for part in (check_help, check_usage, check_run, check_tokenize, check_score, check_keys,
             check_info, check_plan, check_plan_limits, check_plan_parallel,
             check_placement, check_memory_usage, check_dummy_weights, check_made_checkpoint,
             check_verify):
    part()
print(f"{passed} passed, {failed} failed")
sys.exit(1 if failed else 0)
