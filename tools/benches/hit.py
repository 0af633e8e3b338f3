"""A prompt of 32,768 tokens at the release's shapes: its first token once the cache has it."""
import json
import random
import shutil
import tempfile
from pathlib import Path

from benches.kit import DEMO, ROOT, Server, Verdict, ask, say, table

TOKENS, LAYERS, MOST_S = 32768, 8, 0.010
# What of a config follows its tokenizer.
TOKENIZER = ("vocab_size", "engram_compressed_vocab_size")
# Made-up weights; the cache holds the state of the whole prompt.
FLAGS = ("--dummy-weights", "1", "--layers", LAYERS, "--engram-rows", 1 << 17, "--context",
         TOKENS + 1024, "--parallel", 2, "--prompt-cache-gib", 4, "--no-drafts")


def make_model(folder):
    """The release's config with the demo's tokenizer, and so with its vocabulary."""
    shutil.copy(f"{DEMO}/tokenizer.json", folder)
    config = json.loads((ROOT / "tests" / "data" / "config.json").read_text())
    demo = json.loads(Path(f"{DEMO}/config.json").read_text())
    for ours, theirs in ((config, demo), (config["text_config"], demo["text_config"])):
        ours.update({name: value for name, value in theirs.items()
                     if name in TOKENIZER or name.endswith("token_id")})
    (folder / "config.json").write_text(json.dumps(config))


def run():
    body = {"prompt": random.Random(1).choices(range(300, 1000), k=TOKENS), "max_tokens": 8,
            "temperature": 0}
    with tempfile.TemporaryDirectory() as folder:
        make_model(Path(folder))
        return measure(folder, body)


def measure(folder, body):
    """The same request four times: cold, then as hits."""
    with Server(*map(str, FLAGS), model=folder) as server:
        found = [ask(server, "/v1/completions", body)["lanefold"] for _ in range(4)]
    table(["request", "cached tokens", "queue, ms", "prefill, ms", "first token, ms"],
          [[number, one["cached_tokens"], *(f"{1e3 * one[name]:.3f}" for name in
            ("queue_seconds", "prefill_seconds", "time_to_first_token"))]
           for number, one in enumerate(found)])
    hits = sorted(one["time_to_first_token"] - one["queue_seconds"] for one in found[1:])
    unequal = len({one["token_sha256"] for one in found}) - 1
    line = (f"{TOKENS} tokens through {LAYERS} layers: {1e3 * hits[1]:.2f} ms from admission to "
            f"the first token of a whole hit, {unequal} unequal")
    say(line)
    say()
    good = hits[1] <= MOST_S and not unequal
    return Verdict(good and all(one["cached_tokens"] == TOKENS for one in found[1:]), line)
