"""Times `lanefold serve` on the demo model: ready, prefill, decode, memory, 1 and 2 threads."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Server:
    def __init__(self, binary, threads, drafts):
        began = time.monotonic()
        self.process = subprocess.Popen(
            [binary, "serve", "--port", "0", "--threads", str(threads), "--drafts", drafts],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        line = self.process.stdout.readline()
        self.ready_ms = (time.monotonic() - began) * 1000
        if not line.startswith("listening on "):
            sys.exit("the server did not start")
        self.url = line.split()[-1]

    def complete(self, ids, max_tokens):
        body = {"prompt": ids, "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True,
                "cache_prompt": False}
        request = urllib.request.Request(self.url + "/v1/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as reply:
            return json.load(reply)["lanefold"]

    def peak_mib(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            kib = next(line.split()[1] for line in status if line.startswith("VmHWM"))
        return int(kib) / 1024

    def close(self):
        self.process.terminate()
        self.process.wait()


def measure(server, prompt, tokens):
    stats = server.complete(prompt, tokens)
    return {"prefill": len(prompt) / stats["prefill_seconds"],
            "decode": (tokens - 1) / stats["decode_seconds"],
            "sha": stats["token_sha256"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default=f"{ROOT}/build/src/lanefold")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=128)
    args = parser.parse_args()
    with open(f"{ROOT}/tests/data/demo-golden/recall.json") as golden:
        prompt = json.load(golden)["ids"]
    servers = {"1 thread": Server(args.binary, 1, "off"),
               "2 threads": Server(args.binary, 2, "off"),
               "2, drafts": Server(args.binary, 2, "auto")}
    rows = {name: [] for name in servers}
    try:
        for _ in range(args.repeats):
            for name, server in servers.items():
                rows[name].append(measure(server, prompt, args.tokens))
        shas = {row["sha"] for list_of in rows.values() for row in list_of}
        if len(shas) != 1:
            sys.exit("replies differ: no figure is worth anything")
        print(f"prompt {len(prompt)} tokens, reply {args.tokens}, {args.repeats} repeats, medians; "
              f"all replies equal")
        medians = {}
        for name, server in servers.items():
            medians[name] = {key: statistics.median(row[key] for row in rows[name])
                             for key in ("prefill", "decode")}
            print(f"{name:10} prefill {medians[name]['prefill']:8.1f} tok/s  decode "
                  f"{medians[name]['decode']:7.1f} tok/s  ready {server.ready_ms:6.0f} ms  peak "
                  f"{server.peak_mib():6.1f} MiB")
        for over, under in (("2 threads", "1 thread"), ("2, drafts", "2 threads")):
            for key in ("prefill", "decode"):
                ratio = medians[over][key] / medians[under][key]
                print(f"{key}: {over} / {under} = {ratio:.2f}")
    finally:
        for server in servers.values():
            server.close()


main()
