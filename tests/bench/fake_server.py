#!/usr/bin/env python3
"""A loopback server that answers like lanefold, or wrongly in one named way (bench.md 9)."""
import hashlib
import json
import os
import re
import signal
import socket
import struct
import sys
import threading
import time

TEXTS = ["a", "né", " 語", " 𝄞", " b", "ü ", "cd", "."]
MODEL = "fake-alias"
CACHED_WORDS_MIN = 4


def words_of(body):
    """The prompt as words: ids, a text or a conversation."""
    prompt = body.get("prompt")
    if isinstance(prompt, list):
        return [str(i) for i in prompt]
    if prompt is not None:
        return prompt.split()
    return [w for m in body["messages"] for w in (m["role"] + " " + m["content"]).split()]


def token_sha(body, variant=""):
    """The hash that the reply to a body has: seeds count only when sampling."""
    seed = body.get("seed", 7) if body["temperature"] > 0 else 0
    key = json.dumps([words_of(body), seed, body.get("top_k"), body["max_tokens"], variant])
    return hashlib.sha256(key.encode()).hexdigest()


class Fake:
    """One server; `fault` names what it does wrong."""

    def __init__(self, fault="", gap_s=0.001, word_s=0.0, drafts=True, first_s=0.0,
                 cached=True):
        self.fault, self.gap_s, self.word_s, self.drafts = fault, gap_s, word_s, drafts
        self.first_s, self.keeps = first_s, cached
        self.lock, self.active, self.seen, self.bodies = threading.Lock(), 0, [], []
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    def __enter__(self):
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *exc):
        self.listener.close()

    def accept(self):
        while True:
            try:
                link, _ = self.listener.accept()
            except OSError:
                return
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self.serve, args=(link,), daemon=True).start()

    def serve(self, link):
        try:
            self.answer(link)
        except OSError:
            pass
        finally:
            link.close()

    def answer(self, link):
        data = b""
        while b"\r\n\r\n" not in data:
            more = link.recv(65536)
            if not more:
                return
            data += more
        head, body = data.split(b"\r\n\r\n", 1)
        found = re.search(rb"(?i)content-length: *(\d+)", head)
        while found and len(body) < int(found.group(1)):
            body += link.recv(65536)
        path = head.split()[1].decode()
        if path == "/health":
            self.send_json(link, {"status": "ok"})
        elif path == "/v1/models":
            self.send_json(link, {"object": "list", "data": [{"id": MODEL}]})
        elif path == "/memory" and self.fault != "no_memory":
            peak = 1100 if self.fault == "over_plan" else 900
            self.send_json(link, {"process": {"resident_peak_bytes": 500},
                                  "device": {"peak_bytes": peak}, "plan": {"need_bytes": 1000}})
        elif path == "/memory" or self.fault == "http_500":
            link.sendall(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        else:
            self.generate(link, json.loads(body))

    @staticmethod
    def send_json(link, value, short=0):
        text = json.dumps(value).encode()
        link.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
                     b"Content-Length: %d\r\n\r\n" % (len(text) + short) + text)

    def cached(self, body, words):
        """Words that an earlier prompt began with."""
        if body.get("cache_prompt") is False or not self.keeps:
            return 0
        most = 0
        with self.lock:
            for old in self.seen:
                same = 0
                while same < min(len(old), len(words)) and old[same] == words[same]:
                    same += 1
                most = max(most, same)
            self.seen.append(words)
        return most if most >= CACHED_WORDS_MIN else 0

    def generate(self, link, body):
        with self.lock:
            others = self.active
            self.active += 1
            self.bodies.append(body)
        try:
            variant = "3" if self.fault == "stream3" and others == 3 else ""
            plain = body.get("draft") is False or not self.drafts
            variant += "plain" if self.fault == "draft_differs" and plain else ""
            words = words_of(body)
            counters = self.counters(body, words, self.cached(body, words), variant)
            time.sleep(self.first_s + self.word_s * len(words))
            reply = self.whole if not body.get("stream") else self.stream
            reply(link, body, counters, self.pieces(body, variant))
        finally:
            with self.lock:
                self.active -= 1

    def pieces(self, body, variant):
        n, shift = body["max_tokens"], len(variant)
        if self.fault == "other_text":
            shift = len(self.bodies)
        pieces = [TEXTS[(i + shift) % len(TEXTS)] for i in range(n)]
        needle = re.search(r"code of Emma is (\d+)", json.dumps(body))
        if needle and self.fault != "miss":
            pieces[0] = "It is " + needle.group(1)
        return ["".join(pieces)] if self.fault == "one_piece" else pieces

    def counters(self, body, words, cached, variant):
        """usage and lanefold as the last event has them."""
        tokens, prompt = body["max_tokens"], len(words)
        wrong = {"usage_string": str(tokens), "usage_bool": True, "usage_negative": -tokens,
                 "usage_fraction": tokens + 0.5, "usage_above": tokens + 1, "usage_zero": 0}
        wrong_cached = {"cached_above": prompt + 1, "cached_string": "0", "cached_bool": False,
                        "cached_negative": -1, "cached_fraction": 0.0}
        usage = {"prompt_tokens": prompt, "completion_tokens": wrong.get(self.fault, tokens),
                 "prompt_tokens_details": {"cached_tokens": wrong_cached.get(self.fault, cached)}}
        block = {"token_sha256": token_sha(body, variant), "drafted": 3, "accepted": 2,
                 "rounds": 4, "plain_rounds": 1}
        if self.fault == "hash_upper":
            block["token_sha256"] = block["token_sha256"].upper()
        if self.fault == "hash_short":
            block["token_sha256"] = block["token_sha256"][:12]
        if self.fault == "no_hash":
            del block["token_sha256"]
        counters = {"usage": usage, "lanefold": block}
        if self.fault == "no_usage":
            del counters["usage"]
        return counters

    def rows(self, body, variant):
        value = -0.1 - (0.01 if self.fault == "rows_differ" and body.get("draft") is False else 0)
        logprobs = [{"token": t, "bytes": list(t.encode()), "logprob": value, "top_logprobs": []}
                    for t in self.pieces(body, variant)]
        return {"content": logprobs} if body.get("logprobs") else None

    def whole(self, link, body, counters, pieces):
        if self.fault == "reset":
            return self.reset(link)
        reply = {"choices": [{"index": 0, "message": {"content": "".join(pieces)},
                              "logprobs": self.rows(body, "")}], **counters}
        if self.fault == "error_event":
            reply = {"error": {"message": "it broke"}}
        return self.send_json(link, reply, short=10 if self.fault == "cut" else 0)

    @staticmethod
    def reset(link):
        link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def stream(self, link, body, counters, pieces):
        chat = "messages" in body

        def chunk(data):
            link.sendall(b"%x\r\n" % len(data) + data + b"\r\n")

        def event(value):
            line = b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"
            step = 3 if self.fault == "split" else len(line)
            for at in range(0, len(line), step):
                chunk(line[at:at + step])

        link.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                     b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n")
        for i, text in enumerate(pieces):
            if i == 2 and self.fault in ("cut", "reset"):
                link.sendall(b"40\r\ndata: {")
                return self.reset(link) if self.fault == "reset" else None
            if i == 2 and self.fault == "error_event":
                event({"error": {"message": "it broke"}})
            if i == 2 and self.fault == "not_json":
                chunk(b"data: {nonsense\n\n")
            if i == 2 and self.fault == "long_line":
                chunk(b"data: " + b"x" * 70000 + b"\n\n")
            if self.fault == "comments":
                chunk(b": keep-alive\n\n")
            name = "reasoning_content" if self.fault == "thinks" and i < 3 else "content"
            event({"choices": [{"index": 0, "delta": {name: text}} if chat else
                               {"index": 0, "text": text}], "usage": None})
            time.sleep(self.gap_s)
        event({"choices": [{"index": 0, "delta": {}, "text": "", "finish_reason": "length"}]})
        event({"choices": [], **counters})
        if self.fault != "no_done":
            chunk(b"data: [DONE]\n\n")
        link.sendall(b"0\r\n\r\n")
        return None


def write_log(path, text):
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(text + "\n")


def main():
    """As a server that a tool starts: --drafts-gap and --plain-gap are milliseconds a piece."""
    options = dict(zip(sys.argv[1::2], sys.argv[2::2])) if "--no-drafts" not in sys.argv else \
        dict(zip(sys.argv[1:-1:2], sys.argv[2:-1:2]))
    drafts = "--no-drafts" not in sys.argv
    log, fault = options.get("--log"), options.get("--fault", "")
    if options.get("--prompt-cache-gib") != "0" or fault == "no_start":
        sys.exit(3)
    gap = float(options["--drafts-gap" if drafts else "--plain-gap"]) / 1000
    fake = Fake(fault, gap_s=gap, first_s=gap, drafts=drafts)
    write_log(log, "start " + ("drafts" if drafts else "plain"))

    def stop(*_):
        write_log(log, f"stop after {len(fake.bodies)}")
        os._exit(0)

    signal.signal(signal.SIGTERM, stop)
    with fake:
        print(f"listening on {fake.url}", flush=True)
        while True:
            time.sleep(60)


if __name__ == "__main__":
    main()
