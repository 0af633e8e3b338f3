"""What the benches share: servers (the tests' own class), the binary's bench tools, tables."""
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "server"))

import harness

DEMO = str(ROOT / "models" / "demo")
BINARY = harness.BINARY
DEVICE = harness.DEVICE
Server = harness.Server


class Verdict(NamedTuple):
    """Whether a bench passed, and the one line that says what came out."""
    passed: bool
    line: str


def say(line=""):
    print(line, flush=True)


def table(head, rows):
    """A Markdown table, so that the output can go into the docs as it is."""
    for row in [head, ["---"] * len(head), *rows]:
        say("| " + " | ".join(str(cell) for cell in row) + " |")
    say()


def script(*command):
    """Runs a program and prints what it prints; its verdict is its exit code, its line the last."""
    lines = []
    with subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True) as process:
        for line in process.stdout:
            lines.append(line.rstrip())
            say(lines[-1])
    say()
    return process.returncode == 0, lines


def tool(name, *flags, under=(), told=None):
    """`lanefold bench NAME FLAGS`, run by the command under: its Verdict and report or None.

    told is called with each row as it comes.
    """
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        path, said = Path(folder) / "report.json", Path(folder) / "stderr"
        command = [*under, BINARY, "bench", name, *map(str, flags), "--output", str(path)]
        with said.open("w") as err, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=err,
                                                     text=True) as process:
            for line in process.stdout:
                if not line.startswith("{"):
                    lines += [line.rstrip()] if line.strip() else []
                elif told:
                    told(json.loads(line))
        failed, said = process.returncode != 0, said.read_text().strip()
        report = json.loads(path.read_text()) if path.is_file() else None
    if failed and said:
        say(said)
    return Verdict(not failed, lines[-1] if lines else said), report


def serve_has(flag):
    """Whether this build of the server knows a flag."""
    out = subprocess.run([BINARY, "serve", "--help"], capture_output=True, text=True, check=True)
    return flag in out.stdout


def eval_items():
    data = json.loads((ROOT / "tests" / "data" / "demo-eval.json").read_text())
    return [item for item in data["items"] if item["kind"] != "image"]


def eval_body(item):
    """Path and body of one question of the demo's evaluation, greedy."""
    body = {"temperature": 0, "max_tokens": item["max_tokens"]}
    if item["endpoint"] == "completions":
        return "/v1/completions", {**body, "prompt": item["prompt"]}
    body["messages"] = item["messages"]
    body["thinking"] = {"type": "enabled" if item["thinking"] else "disabled"}
    if "tools" in item:
        body["tools"] = item["tools"]
    return "/v1/chat/completions", body


def ask(server, path, body):
    """The reply of a request that must be answered."""
    status, _, reply = server.post(path, body)
    if status != 200:
        raise RuntimeError(f"status {status}: {reply}")
    return reply


def worst(verdicts):
    """One verdict of several; the first that failed says the line."""
    for verdict in verdicts:
        if not verdict.passed:
            return verdict
    return Verdict(True, "; ".join(verdict.line for verdict in verdicts))
