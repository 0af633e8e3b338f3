"""The prompt cache on disk over HTTP: restarts, a damaged file, folders that are refused."""
import os
import stat
import subprocess
import tempfile
from pathlib import Path

import harness

PROMPT = {"prompt": [300 + i * 7 % 1500 for i in range(2500)], "max_tokens": 40, "ignore_eos": True,
          "temperature": 0.8, "seed": 3}


def ask(server, body):
    reply = server.post("/v1/completions", body)[2]
    return reply["usage"]["prompt_tokens_details"]["cached_tokens"], reply["lanefold"]


def flags_of(folder):
    return ["--spill-dir", str(folder), "--spill-gib", "1", "--spill-floor-gib", "0"]


def restarts(c):
    """C-18 to C-20: the next server answers from the files; a damaged one costs a prefill."""
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "spill"
        with harness.Server(*flags_of(folder)) as server:
            cached, cold = ask(server, PROMPT)
            c.check("the first server is cold", cached == 0)
            c.check("a disk is told of", server.memory()["prompt_cache"]["disk"]["files"] == 0)
        files = list(folder.iterdir())
        c.check("the end writes states", len(files) >= 1, str(files))
        c.check("the folder is the user's alone", stat.S_IMODE(os.stat(folder).st_mode) == 0o700)
        with harness.Server(*flags_of(folder)) as server:
            cached, again = ask(server, PROMPT)
            c.check("the next server resumes the whole prompt", cached == 2500, str(cached))
            c.check("with equal tokens", again["token_sha256"] == cold["token_sha256"])
            longer = {**PROMPT, "prompt": PROMPT["prompt"] + [700 + i for i in range(300)]}
            cached, resumed = ask(server, longer)
            c.check("a longer prompt goes on", cached >= 2500, str(cached))
            cached, fresh = ask(server, {**longer, "cache_prompt": False})
            c.check("as a fresh one", cached == 0 and
                    fresh["token_sha256"] == resumed["token_sha256"])
            disk = server.memory()["prompt_cache"]["disk"]
            c.check("the return is counted", disk["returned"] >= 1 and disk["damaged"] == 0)
        for file in folder.iterdir():
            data = bytearray(file.read_bytes())
            data[len(data) // 2] ^= 1
            file.write_bytes(data)
        with harness.Server(*flags_of(folder)) as server:
            cached, fresh = ask(server, PROMPT)
            c.check("damaged files cost a prefill, no reply",
                    cached == 0 and fresh["token_sha256"] == cold["token_sha256"])
            disk = server.memory()["prompt_cache"]["disk"]
            c.check("and are counted", disk["damaged"] >= 1, str(disk))


def refused(c):
    """C-21, and flags that do not go together."""
    model = harness.ROOT / "models" / "demo"
    rows = [(["--spill-dir", str(model / "spill"), "--spill-gib", "1"], "checkpoint"),
            (["--spill-gib", "1"], "spill-dir"), (["--spill-dir", "x"], "spill-gib"),
            (["--keep-shared"], "spill-dir"),
            (["--spill-dir", "x", "--spill-gib", "1", "--prompt-cache-gib", "0"], "prompt cache")]
    for flags, word in rows:
        for command in ("serve", "plan"):
            out = subprocess.run([harness.BINARY, command, str(model), *flags], timeout=60,
                                 capture_output=True, text=True, check=False)
            c.check(f"{command} {flags} is refused", out.returncode == 2 and word in out.stderr,
                    f"{out.returncode} {out.stderr}")
    c.check("nothing was made", not (model / "spill").exists())


ALL = [restarts, refused]
