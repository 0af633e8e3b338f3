#!/usr/bin/env python3
"""Many clients at once, some hanging up anywhere: are all other replies those given alone?"""
import argparse
import asyncio
import collections
import json
import random
import re
import sys
import time

import harness

WHOLE_SHARE, CLIENTS, SLOTS = 0.7, 24, 16
TEMPERATURES = (0, 0.7, 1)
LINE = re.compile(r" soak-(\d+) POST \S+ (\d+)(?: prompt=\d+ completion=(\d+) cached=(\d+)"
                  r" queue_s=(\S+))?")
FILLER = ("The goat slept near the map. ", "On Monday it rained in Lima. ",
          "Nobody saw the parrot behind the box. ", "In May the attic was painted red. ")


def make_request(number, items, dice, filler):
    """One of the evaluation's questions, asked in one of many ways."""
    item = dice.choice(items)
    body = {"stream": True, "stream_options": {"include_usage": True},
            "max_tokens": dice.choice((8, 30, 60, 120, 200)), "seed": number,
            "temperature": TEMPERATURES[number % 3], "ignore_eos": dice.random() < 0.3}
    if dice.random() < 0.3:
        body["draft"] = False
    if body["temperature"] and dice.random() < 0.5:
        body.update(top_p=0.95, top_k=20)
    chat = item["endpoint"] == "chat"
    if dice.random() < 0.25:
        body.update({"logprobs": True, "top_logprobs": 5} if chat else {"logprobs": 5})
    if not chat:
        return {"path": "/v1/completions", "body": {**body, "prompt": item["prompt"]}}
    messages = [dict(message) for message in item["messages"]]
    if dice.random() < 0.2:
        many = dice.randrange(filler)
        text = "".join(dice.choice(FILLER) for _ in range(many))
        messages[0]["content"] = text + messages[0]["content"]
    body["messages"] = messages
    body["thinking"] = {"type": dice.choice(("enabled", "disabled"))}
    if "tools" in item:
        body["tools"] = item["tools"]
    return {"path": "/v1/chat/completions", "body": body}


def make_requests(count, seed, filler):
    data = json.loads((harness.ROOT / "tests" / "data" / "demo-eval.json").read_text())
    items = [item for item in data["items"] if item["kind"] != "image"]
    dice = random.Random(seed)
    return [make_request(number, items, dice, filler) for number in range(count)]


def make_fate(seed, number):
    """Where this request ends: its end, pieces of text, admission (no piece), seconds, at once."""
    dice = random.Random(f"{seed} {number}")
    drawn = dice.random()
    if drawn < WHOLE_SHARE:
        return {}
    if drawn < 0.8:
        return {"pieces": dice.randrange(1, 25)}
    if drawn < 0.9:
        return {"pieces": 0}
    return {"seconds": dice.choice((0, 0.02, 0.2)) * dice.random()}


async def read_events(reader):
    """The events of a chunked stream, its data parsed; the status first."""
    head = await reader.readuntil(b"\r\n\r\n")
    yield int(head.split()[1])
    chunked, text = b"chunked" in head.lower(), b""
    while True:
        size = int(await reader.readline(), 16) if chunked else 0
        part = await (reader.readexactly(size + 2) if chunked else reader.read(65536))
        if not part or (chunked and not size):
            return
        text += part[:size] if chunked else part
        *events, text = text.split(b"\n\n")
        for event in events:
            if event.startswith(b"data: {"):
                yield json.loads(event[6:])


def has_text(event):
    for choice in event.get("choices", []):
        delta = choice.get("delta", choice)
        if delta.get("content") or delta.get("reasoning_content") or delta.get("text"):
            return True
    return False


async def read_reply(reader, pieces_max):
    """The last event's lanefold block, or None after pieces_max pieces of text."""
    pieces, status = 0, None
    async for event in read_events(reader):
        if status is None:
            status = event
            if status != 200:
                return {"error": f"status {status}"}
            if pieces_max == 0:
                return None
            continue
        if "error" in event:
            return {"error": event["error"]["message"]}
        if "lanefold" in event:
            return event["lanefold"]
        pieces += has_text(event)
        if pieces_max and pieces >= pieces_max:
            return None
    return {"error": "the stream was cut"}


async def ask(server, name, request, fate):
    """The lanefold block of a whole reply, {"error": ...}, or None where the client hung up."""
    data = json.dumps(request["body"]).encode()
    reader, writer = await asyncio.open_connection(*server.address, limit=1 << 20)
    writer.write((f"POST {request['path']} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                  f"X-Request-Id: {name}\r\nContent-Type: application/json\r\n"
                  f"Content-Length: {len(data)}\r\n\r\n").encode() + data)
    try:
        await writer.drain()
        return await asyncio.wait_for(read_reply(reader, fate.get("pieces")),
                                      fate.get("seconds", 600))
    except asyncio.TimeoutError:
        return None if "seconds" in fate else {"error": "no end within 600 s"}
    except (ConnectionError, asyncio.IncompleteReadError, ValueError) as error:
        return {"error": f"{type(error).__name__}: {error}"}
    finally:
        writer.transport.abort()


async def reference(server, requests):
    for number, request in enumerate(requests):
        reply = await ask(server, f"alone-{number}", request, {})
        if "error" in reply:
            raise RuntimeError(f"request {number} alone: {reply['error']}")
        request["sha"] = reply["token_sha256"]


class Soak:
    """Counts of one run against one server."""

    def __init__(self, server, requests, seed):
        self.server, self.requests, self.seed = server, requests, seed
        self.next = 0
        self.count = collections.Counter()
        self.drafted = self.accepted = 0

    async def client(self, until):
        while self.next < until:
            number = self.next
            self.next += 1
            dice = random.Random(f"{self.seed} {number} wait")
            await asyncio.sleep(dice.expovariate(50))
            request = dice.choice(self.requests)
            self.take(number, request, await ask(self.server, f"soak-{number}", request,
                                                 make_fate(self.seed, number)))

    def take(self, number, request, reply):
        if reply is None:
            self.count["hung up"] += 1
        elif "error" in reply:
            self.count["failed"] += 1
            print(f"FAILED request {number}: {reply['error']}", flush=True)
        else:
            self.count["whole"] += 1
            self.drafted += reply["drafted"]
            self.accepted += reply["accepted"]
            if reply["token_sha256"] != request["sha"]:
                self.count["unequal"] += 1
                print(f"UNEQUAL request {number}: {json.dumps(request['body'])}", flush=True)

    async def run(self, until):
        """All requests up to this one, until the server has ended each."""
        await asyncio.gather(*(self.client(until) for _ in range(CLIENTS)))
        end = time.time() + 60
        while len(self.ends()) < until and time.time() < end:
            await asyncio.sleep(0.05)

    def ends(self):
        return {int(found[1]): found for found in map(LINE.search, list(self.server.lines))
                if found}

    def stages(self):
        """How many requests the server says it lost in the queue, the prompt and the reply."""
        lost, resumed = collections.Counter(), 0
        for found in self.ends().values():
            resumed += int(found[4] or 0) > 0
            if found[2] == "499":
                waited = found[5] is None or float(found[5]) == 0
                lost["reply" if int(found[3] or 0) else "queue" if waited else "prompt"] += 1
        return lost, resumed


def resident_bytes(server):
    """The process's own figure, which /memory must know too."""
    own, told = server.status_bytes("VmRSS"), server.memory()["process"]["resident_bytes"]
    if abs(own - told) > max(own, told) // 50:
        raise RuntimeError(f"/memory tells {told} resident bytes, the kernel {own}")
    return own


def report(soak, server, sizes):
    lost, resumed = soak.stages()
    count, growth = soak.count, sizes[1] / sizes[0] - 1
    print(f"{soak.next} requests: {count['whole']} whole, {count['hung up']} hung up (in the queue "
          f"{lost['queue']}, the prompt {lost['prompt']}, the reply {lost['reply']}), "
          f"{resumed} resumed from the cache, {soak.accepted} of {soak.drafted} drafts accepted")
    print(f"resident: {sizes[0] / 2**20:.1f} MiB after a quarter, {sizes[1] / 2**20:.1f} MiB at "
          f"the end ({growth * 100:+.1f} %); peak {server.status_bytes('VmHWM') / 2**20:.1f} MiB")
    return lost, growth


def check(soak, server, args, sizes):
    checks, count = harness.Checks(), soak.count
    lost, growth = report(soak, server, sizes)
    checks.check("no reply differs from the same request alone", not count["unequal"])
    checks.check("no request failed", not count["failed"])
    checks.check("the server ended every request", len(soak.ends()) == args.requests)
    checks.check("clients hung up", count["hung up"] > 0)
    checks.check("whole replies", count["whole"] >= args.requests // 2)
    if args.growth is not None:
        checks.check("clients hung up in the queue, the prompt and the reply", len(lost) == 3)
        checks.check("resident memory stays", growth <= args.growth, f"{growth:.3f}")
    return checks


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=100)
    parser.add_argument("--distinct", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--filler", type=int, default=300, help="sentences of the longest prompts")
    parser.add_argument("--growth", type=float, help="most growth after a quarter of the requests")
    args = parser.parse_args()
    harness.need_serve()
    requests = make_requests(args.distinct, args.seed, args.filler)
    began = time.monotonic()
    with harness.Server("--parallel", "1", "--no-drafts", "--prompt-cache-gib", "0") as server:
        asyncio.run(reference(server, requests))
    print(f"{args.distinct} requests alone: {time.monotonic() - began:.0f} s", flush=True)
    # Keep-alives come from admission on, so a client sees that its prompt is being read.
    flags = ("--parallel", str(SLOTS), "--prompt-cache-gib", "0.02", "--keepalive", "0.01")
    with harness.Server(*flags) as server:
        soak = Soak(server, requests, args.seed)
        sizes = []
        for until in (args.requests // 4, args.requests):
            asyncio.run(soak.run(until))
            print(f"{until} requests: {time.monotonic() - began:.0f} s", flush=True)
            sizes.append(resident_bytes(server))
        checks = check(soak, server, args, sizes)
    checks.check("the server stops with 0", server.process.returncode == 0,
                 str(server.process.returncode))
    checks.check("no sanitizer spoke", "Sanitizer" not in server.log(), server.log()[-20000:])
    print(f"soak: {args.requests} requests, {soak.count['failed']} failed, "
          f"{soak.count['unequal']} unequal", flush=True)
    checks.end()


if __name__ == "__main__":
    sys.exit(main())
