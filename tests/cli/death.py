#!/usr/bin/env python3
"""F-3 with the real program: a lost device fails requests and /health, and ends it with 70."""
import json
import os
import signal
import socket
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

os.environ["LF_BINARY"] = sys.argv[1]
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "server"))
import harness

STREAM = {"messages": [{"role": "user", "content": "Hello!"}], "stream": True, "ignore_eos": True,
          "max_tokens": 3000}


def health(server):
    """The status and state of /health; None once the server is gone."""
    try:
        with urllib.request.urlopen(server.url + "/health", timeout=5) as reply:
            return reply.status, json.loads(reply.read())["status"]
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())["status"]
    except OSError:
        return None


def read_all(link):
    link.settimeout(10)
    got = b""
    while True:
        try:
            part = link.recv(65536)
        except OSError:
            return got
        if not part:
            return got
        got += part


def main():
    c = harness.Checks()
    with harness.Server("--parallel", "1", "--drafts", "off") as server:
        status, _, _ = server.post("/v1/chat/completions", {
            "messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 5})
        c.check("it answers before", status == 200 and health(server) == (200, "ok"))
        running = server.send_raw("/v1/chat/completions", STREAM)
        c.check("the stream began", running.recv(4096).startswith(b"HTTP/1.1 200"))
        waiting = server.send_raw("/v1/chat/completions", STREAM)
        unread = server.send_raw("/v1/completions", {"prompt": "x", "max_tokens": 5})
        server.process.send_signal(signal.SIGUSR1)
        seen, start, dead_at = set(), time.time(), None
        while server.process.poll() is None and time.time() < start + 30:
            seen.add(health(server))
            if dead_at is None and (503, "failed") in seen:
                dead_at = time.time()
            time.sleep(0.02)
        end = time.time()
        c.check("/health says failed", (503, "failed") in seen, str(seen))
        c.check("exit code 70", server.process.wait(30) == 70, str(server.process.returncode))
        c.check("within two seconds of the death", dead_at and end - dead_at < 2,
                str(end - start))
        text = read_all(running)
        c.check("the running stream ends with an error", b'"error"' in text, str(text[-300:]))
        c.check("it names the device", b"device is lost" in text, str(text[-300:]))
        c.check("the waiting request is a 503", b"503" in read_all(waiting)[:20])
        unread.close()
        c.check("the log says why", "device is lost" in server.log())
    c.end()


main()
