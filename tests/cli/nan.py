#!/usr/bin/env python3
"""Does a NaN in a weight fail the replies that read it, and those alone, on the CPU and on CUDA?"""
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

root, plain, played = os.environ["LF_SOURCE_ROOT"], os.environ["LF_BINARY"], sys.argv[1]
demo = Path(root) / "models" / "demo"
failed = 0


def check(ok, what, result):
    global failed
    if not ok:
        failed += 1
        print("FAILED:", what, result.returncode, result.stdout[-300:], result.stderr[-400:])


def poisoned(folder, tensor, row, value):
    """The demo with other bytes at the start of one row of a tensor."""
    copy = Path(folder) / tensor
    copy.mkdir()
    index = json.loads((demo / "model.safetensors.index.json").read_text())
    shard = index["weight_map"][tensor]
    for path in demo.iterdir():
        if path.name == shard:
            shutil.copyfile(path, copy / shard)
        else:
            (copy / path.name).symlink_to(path)
    with open(copy / shard, "r+b") as file:
        length, = struct.unpack("<Q", file.read(8))
        entry = json.loads(file.read(length))[tensor]
        begin, end = entry["data_offsets"]
        file.seek(8 + length + begin + (end - begin) // entry["shape"][0] * row)
        file.write(value)
    return str(copy)


def run(binary, model, device, prompt):
    return subprocess.run([binary, "run", model, "--device", device, "--raw", "-p", prompt,
                           "--context", "8", "--max-tokens", "2", "--temperature", "0",
                           "--json", "--threads", "1"], capture_output=True, timeout=200)


def token_of(text):
    done = subprocess.run([plain, "tokenize", str(demo)], input=text.encode(),
                          capture_output=True, check=True)
    return int(done.stdout.split()[0])


def ids(result):
    return json.loads(result.stdout or b"{}").get("token_ids")


def check_failing(binary, device, model, prompt, what):
    result = run(binary, model, device, prompt)
    check(result.returncode == 1 and not result.stdout and
          b"the reply failed: the model's logits are not finite" in result.stderr,
          f"{what} on {device}", result)


def main():
    bf16, e4m3, e8m0 = b"\xc1\x7f", b"\x7f", b"\xff"
    with tempfile.TemporaryDirectory() as folder:
        everywhere = {
            "a bf16 norm": poisoned(folder, "norm.weight", 0, bf16),
            "an FP8 code": poisoned(folder, "layers.2.attn.wq_a.weight", 5, e4m3),
            "a scale": poisoned(folder, "layers.2.ffn.shared_experts.w2.scale", 0, e8m0)}
        token = poisoned(folder, "embed.weight", token_of("x"), bf16)
        for binary, device in ((plain, "cpu"), (played, "cuda")):
            for what, model in everywhere.items():
                check_failing(binary, device, model, "x", what)
            check_failing(binary, device, token, "x", "the token's own row")
            other = run(binary, token, device, "y")
            check(other.returncode == 0 and ids(other) and
                  ids(other) == ids(run(binary, str(demo), device, "y")),
                  f"another token on {device}", other)
        text = Path(folder) / "text"
        text.write_text("xyx")
        scored = subprocess.run([plain, "score", token, str(text), "--device", "cpu"],
                                capture_output=True)
        check(scored.returncode == 1 and b"are not finite" in scored.stderr, "score", scored)


main()
sys.exit(failed > 0)
