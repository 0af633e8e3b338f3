#!/usr/bin/env python3
"""A very long prompt on a copy of the demo with a raised context: is its memory as planned?"""
import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DEMO = ROOT / "models" / "demo"
BINARY = os.environ.get("LF_BINARY", str(ROOT / "build" / "src" / "lanefold"))
MIB = 1 << 20
# The lines that the allocations of a loaded model are told for; they do not grow with the prompt.
FIXED = ("slot_state", "slot_history", "workspace", "scratch")


def parse():
    """The sizes; the defaults are those of the promise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--context", type=int, default=1048576)
    parser.add_argument("--rows", type=int, default=300000, help="tokens of the prompt")
    parser.add_argument("--chunk-rows", type=int, default=2048)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=3600, help="seconds a prompt may take")
    return parser.parse_args()


def raise_context(folder, context):
    """The demo's files by links, with its config's positions raised: rotations follow positions."""
    for path in DEMO.iterdir():
        if path.name != "config.json":
            (folder / path.name).symlink_to(path)
    config = json.loads((DEMO / "config.json").read_text())
    config["text_config"]["max_position_embeddings"] = context
    (folder / "config.json").write_text(json.dumps(config))


def flags(args):
    """What serve and plan are asked alike."""
    return ["--parallel", "1", "--chunk-rows", str(args.chunk_rows), "--threads",
            str(args.threads), "--prompt-cache-gib", "0"]


def plan(folder, args, context):
    """The plan's lines for a slot of so many positions."""
    out = subprocess.run([BINARY, "plan", str(folder), *flags(args), "--context", str(context),
                          "--json"], stdout=subprocess.PIPE, check=True)
    return json.loads(out.stdout)["lines"]


def start(folder, args):
    """A server and its address."""
    server = subprocess.Popen([BINARY, "serve", str(folder), *flags(args), "--context",
                               str(args.context), "--port", "0", "--name", "long"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    found = re.search(r"http://\S+", server.stdout.readline())
    if not found:
        sys.exit("the server did not start")
    return server, found.group(0)


def read(url, body=None, timeout=60):
    """One JSON answer."""
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        return json.load(answer)


def ask(url, rows, args):
    """Seconds of a prompt of random ids, after which the memory is read."""
    ids = random.Random(rows)
    body = {"model": "long", "prompt": [ids.randrange(300, 2290) for _ in range(rows)],
            "max_tokens": 8, "temperature": 0, "ignore_eos": True}
    began = time.monotonic()
    reply = read(url + "/v1/completions", body, args.timeout)
    seconds = time.monotonic() - began
    if reply["usage"]["prompt_tokens"] != rows:
        sys.exit(f"the prompt had {reply['usage']['prompt_tokens']} tokens, not {rows}")
    return seconds, read(url + "/memory")


class Verdict:
    """Prints each check and remembers whether all held."""

    def __init__(self):
        self.good = True

    def within(self, what, planned, measured, room):
        """Both figures in MiB, and whether they are as near as room allows."""
        good = abs(measured - planned) <= room
        self.good = self.good and good
        print(f"{'ok  ' if good else 'FAIL'} {what}: planned {planned / MIB:.2f} MiB, measured "
              f"{measured / MIB:.2f}, allowed {room / MIB:.2f} apart", flush=True)


def main():
    """Two prompts, one a tenth of the other, then the comparison; exit status 1: a check failed."""
    args = parse()
    verdict = Verdict()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "demo"
        folder.mkdir()
        raise_context(folder, args.context)
        whole, short = plan(folder, args, args.context), plan(folder, args, 4096)
        used = plan(folder, args, args.rows)
        server, url = start(folder, args)
        try:
            first_seconds, first = ask(url, args.rows // 10, args)
            seconds, memory = ask(url, args.rows, args)
        finally:
            server.terminate()
            server.wait()
    print(f"{args.rows // 10} tokens in {first_seconds:.1f} s, {args.rows} in {seconds:.1f} s")
    lines, process = memory["lines"], memory["process"]
    together = {"workspace": ("workspace", "logits", "rotary")}
    for key in FIXED:
        planned = sum(whole[line] for line in together.get(key, (key,)))
        held = sum(lines.get(line, 0) for line in together.get(key, (key,)))
        verdict.within(key, planned, held, planned * 0.02 + MIB)
    # Scores are held for a block of rows: a longer context adds no more than that.
    verdict.within("workspace beside one of 4096 positions", short["workspace"],
                   whole["workspace"], 64 * MIB)
    counted = sum(size for key, size in whole.items() if key != "engram_tables")
    counted += used["kv"] - whole["kv"] + used["slot_history"] - whole["slot_history"]
    peak = process["resident_peak_bytes"]
    verdict.within("peak of the process", counted, peak, max(counted * 0.02, 32 * MIB))
    positions = args.rows - args.rows // 10
    grown = process["resident_peak_bytes"] - first["process"]["resident_peak_bytes"]
    planned = positions * (memory["plan"]["kv_position_bytes"] + 4)
    verdict.within(f"growth for {positions} more positions", planned, grown, max(planned, 8 * MIB))
    print("the memory is as planned" if verdict.good else "the memory is not as planned")
    return 0 if verdict.good else 1


if __name__ == "__main__":
    sys.exit(main())
