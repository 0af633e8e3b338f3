"""Starts `lanefold serve` on the demo model and counts checks; shared by the server's tests."""
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

ROOT = Path(os.environ.get("LF_SOURCE_ROOT", Path(__file__).resolve().parents[2]))
BINARY = os.environ.get("LF_BINARY", str(ROOT / "build" / "src" / "lanefold"))
# Where the server computes: LF_DEVICE=cuda asks for a GPU.
DEVICE = ["--device", os.environ["LF_DEVICE"]] if "LF_DEVICE" in os.environ else []
VENV = ROOT / "build" / ".venv-server"
SKIPPED = 77


def enter_venv():
    """Runs this script again inside the tests' own environment, made on the first call."""
    python = VENV / "bin" / "python"
    wanted = (Path(__file__).parent / "requirements.txt").read_text()
    stamp = VENV / "requirements"
    if not stamp.is_file() or stamp.read_text() != wanted:
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet",
                        "--disable-pip-version-check", *wanted.split()], check=True)
        stamp.write_text(wanted)
    if Path(sys.prefix).resolve() != VENV.resolve():
        os.execv(str(python), [str(python), *sys.argv])


def need_serve():
    """Skips cleanly while the binary has no serve command."""
    out = subprocess.run([BINARY, "serve", "--help"], capture_output=True, check=False)
    if out.returncode != 0 or b"--port" not in out.stdout + out.stderr:
        print(f"SKIP: {BINARY} has no serve command")
        sys.exit(SKIPPED)


class Checks:
    """Counts named checks; a failed one is printed and the run goes on."""

    def __init__(self):
        self.passed = self.failed = 0

    def check(self, name, good, detail=""):
        if good:
            self.passed += 1
        else:
            self.failed += 1
            print(f"FAILED {name} {detail}", flush=True)
        return bool(good)

    def run(self, name, function, *args):
        try:
            function(self, *args)
        except Exception as error:  # pylint: disable=broad-except
            self.check(name, False, f"{type(error).__name__}: {error}")

    def end(self):
        print(f"{self.passed} passed, {self.failed} failed", flush=True)
        sys.exit(1 if self.failed or not self.passed else 0)


class Server:
    """One `lanefold serve --port 0`, on the demo unless told, until the with block ends."""

    def __init__(self, *flags, model=ROOT / "models" / "demo", device=()):
        self.command = [BINARY, "serve", str(model), "--port", "0", *(device or DEVICE), *flags]
        self.lines = []
        self.url = None

    def __enter__(self):
        began = time.monotonic()
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True, errors="replace")
        ready = threading.Event()
        threading.Thread(target=self.read, args=(ready,), daemon=True).start()
        if not ready.wait(120) or not self.url:
            self.process.kill()
            raise RuntimeError("the server did not start:\n" + "".join(self.lines))
        self.ready_ms = (time.monotonic() - began) * 1000
        return self

    def read(self, ready):
        for line in self.process.stdout:
            self.lines.append(line)
            found = re.search(r"http://[^\s\"]+:\d+", line)
            if found and not self.url:
                self.url = found.group(0)
                ready.set()
        ready.set()

    def log(self):
        return "".join(self.lines)

    def wait_log(self, pattern, seconds=10):
        """Whether a log line comes to match."""
        end = time.time() + seconds
        while time.time() < end:
            if re.search(pattern, self.log()):
                return True
            time.sleep(0.05)
        return False

    def __exit__(self, *exc):
        self.process.terminate()
        try:
            self.process.wait(40)
        except subprocess.TimeoutExpired:
            self.process.kill()

    @property
    def address(self):
        host, port = self.url.removeprefix("http://").rsplit(":", 1)
        return host, int(port)

    def status_bytes(self, field):
        """A size of the process as the kernel keeps it: VmRSS, VmHWM."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            return next(int(line.split()[1]) << 10 for line in status
                        if line.startswith(field + ":"))

    def memory(self):
        with urllib.request.urlopen(self.url + "/memory", timeout=60) as reply:
            return json.load(reply)

    def post(self, path, body, headers=None):
        """status, headers, parsed body; no library in between."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, method="POST")
        request.add_header("Content-Type", "application/json")
        for name, value in (headers or {}).items():
            request.add_header(name, value)
        try:
            with urllib.request.urlopen(request, timeout=600) as reply:
                return reply.status, reply.headers, json.loads(reply.read())
        except urllib.error.HTTPError as error:
            return error.code, error.headers, json.loads(error.read())

    def send_raw(self, path, body):
        """A socket whose request went out and whose reply was not read."""
        data = json.dumps(body).encode()
        link = socket.create_connection(self.address, timeout=600)
        link.sendall((f"POST {path} HTTP/1.1\r\nHost: localhost\r\n"
                      f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n")
                     .encode() + data)
        return link
