#!/usr/bin/env python3
"""The demo model's evaluation set over HTTP: as many right as the file states, less one."""
import json

import harness

harness.need_serve()


def ask(server, item):
    body = {"temperature": 0, "max_tokens": item["max_tokens"]}
    if item["endpoint"] == "completions":
        status, _, reply = server.post("/v1/completions", {**body, "prompt": item["prompt"]})
        return status, reply["choices"][0]["text"] if status == 200 else str(reply), []
    body["messages"] = item["messages"]
    body["thinking"] = {"type": "enabled" if item["thinking"] else "disabled"}
    if "tools" in item:
        body["tools"] = item["tools"]
    status, _, reply = server.post("/v1/chat/completions", body)
    if status != 200:
        return status, str(reply), []
    message = reply["choices"][0]["message"]
    return status, message["content"] or "", message.get("tool_calls", [])


def is_right(item, text, calls):
    if "answer_call" in item:
        want = item["answer_call"]
        if len(calls) != 1 or text.strip():
            return False
        got = calls[0]["function"]
        return got["name"] == want["name"] and got["arguments"] == want["arguments"]
    if "answer_prefix" in item:
        return text.startswith(item["answer_prefix"])
    return text == item["answer"] and not calls


def has_image(item):
    return item["kind"] == "image"


def main():
    data = json.loads((harness.ROOT / "tests" / "data" / "demo-eval.json").read_text())
    stated = sum(right for kind, (right, _) in data["kinds"].items() if kind != "image")
    items = [item for item in data["items"] if not has_image(item)]
    right = 0
    with harness.Server() as server:
        for item in items:
            status, text, calls = ask(server, item)
            good = status == 200 and is_right(item, text, calls)
            right += good
            if not good:
                print(f"item {item['id']} ({item['kind']}): {status} {text!r} {calls}", flush=True)
    print(f"{right} of {len(items)} right, the file states {stated}", flush=True)
    checks = harness.Checks()
    checks.check("right at least as stated, less one", right >= stated - 1, f"{right} of {stated}")
    checks.end()


main()
