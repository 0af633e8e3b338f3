"""How fast a checkpoint of the release's widths comes to where it is served from."""
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benches.kit import BINARY, DEMO, ROOT, Server, Verdict, say, table

# The demo's layers at the release's widths: 8 of them with so many experts are some 20 GB.
WIDTHS = ("hidden_size", "moe_intermediate_size", "num_attention_heads", "num_key_value_heads",
          "head_dim", "qk_rope_head_dim", "q_lora_rank", "o_lora_rank", "o_groups",
          "num_experts_per_tok", "index_n_heads", "index_head_dim")
EXPERTS = int(os.environ.get("LF_LOAD_EXPERTS", "96"))
READERS, PIECE_BYTES, LEAST = 16, 8 << 20, 0.7


def make_checkpoint(folder):
    config = json.loads(Path(f"{DEMO}/config.json").read_text())
    release = json.loads((ROOT / "tests" / "data" / "config.json").read_text())
    for name in WIDTHS:
        config["text_config"][name] = release["text_config"][name]
    config["text_config"]["n_routed_experts"] = EXPERTS
    (folder / "config.json").write_text(json.dumps(config))
    shutil.copy(f"{DEMO}/tokenizer.json", folder)
    maker = Path(BINARY).parents[1] / "tests" / "make_checkpoint"
    subprocess.run([maker, folder, "1"], check=True)
    os.sync()
    return sorted(folder.glob("*.safetensors"))


def forget(files):
    """The files' pages leave memory, so that they come from the disk next."""
    for path in files:
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_rate(files):
    """GB/s of reading the files with nothing else done, by several threads."""
    def read(piece):
        fd, at = piece
        os.preadv(fd, [bytearray(PIECE_BYTES)], at)
    fds = [os.open(path, os.O_RDONLY) for path in files]
    pieces = [(fd, at) for fd in fds for at in range(0, os.fstat(fd).st_size, PIECE_BYTES)]
    began = time.monotonic()
    with ThreadPoolExecutor(READERS) as pool:
        list(pool.map(read, pieces))
    took = time.monotonic() - began
    for fd in fds:
        os.close(fd)
    return sum(path.stat().st_size for path in files) / 1e9 / took


def load(folder):
    """GB/s that the server tells of its weights, and seconds from its start until it answers."""
    with Server("--context", "4096", "--parallel", "2", "--no-drafts", "--chunk-rows", "256",
                model=folder) as server:
        rates = re.findall(r"on the device, ([0-9.]+) GB/s", server.log())
        return float(rates[-1]) if rates else float("nan"), server.ready_ms / 1e3


def run():
    with tempfile.TemporaryDirectory() as folder:
        files = make_checkpoint(Path(folder))
        return measure(folder, files)


def measure(folder, files):
    rows = []
    for name, prepare in (("disk", forget), ("memory", lambda files: None)):
        prepare(files)
        plain = read_rate(files)
        prepare(files)
        rows.append([name, plain, *load(folder)])
    table(["files in", "plain read, GB/s", "weights, GB/s", "ready after, s"],
          [[name, *(f"{figure:.2f}" for figure in figures)] for name, *figures in rows])
    line = "; ".join(f"from {name} {rate:.2f} GB/s of {plain:.2f}" for name, plain, rate, _ in rows)
    say(line)
    return Verdict(rows[0][2] >= LEAST * rows[0][1], line)
