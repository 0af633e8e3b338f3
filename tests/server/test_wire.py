"""What no library shows: bytes, limits, hang-ups, the queue, keep-alives, the log."""
import json
import os
import socket
import threading
import time
import urllib.request

SLOW = {"messages": [{"role": "user", "content": "Write a story."}], "temperature": 1,
        "ignore_eos": True, "max_tokens": 4000, "thinking": {"type": "disabled"}}
LONG_PROMPT = {"prompt": [300 + i % 200 for i in range(3500)], "max_tokens": 300,
               "ignore_eos": True, "temperature": 0}


def error_of(reply):
    return reply[2]["error"]


def malformed_bodies(c, server):
    reply = server.post("/v1/chat/completions", b'{"messages": [}')
    c.check("malformed JSON is 400", reply[0] == 400 and error_of(reply)["code"] == "invalid_json")
    c.check("it names the byte", "byte 14" in error_of(reply)["message"],
            error_of(reply)["message"])
    reply = server.post("/v1/chat/completions", b"[" * 200)
    c.check("depth is bounded", reply[0] == 400 and error_of(reply)["code"] == "invalid_json")
    reply = server.post("/v1/chat/completions", b'{"messages":"\xff"}')
    c.check("invalid UTF-8 is 400", reply[0] == 400 and error_of(reply)["code"] == "invalid_json")
    c.check("four keys", set(error_of(reply)) == {"message", "type", "param", "code"})


def body_over_the_limit(c, server):
    reply = server.post("/v1/chat/completions", b" " * (49 << 20))
    c.check("49 MiB is 413", reply[0] == 413 and error_of(reply)["code"] == "request_too_large")
    reply = server.post("/v1/completions", {"prompt": "Hi", "max_tokens": 1})
    c.check("the next request is unaffected", reply[0] == 200)


def chunked_body(c, server):
    link = socket.create_connection(server.address, timeout=30)
    body = b'{"prompt":"Hello","max_tokens":2}'
    link.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                 b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
    for i in range(0, len(body), 7):
        part = body[i:i + 7]
        link.sendall(f"{len(part):x}\r\n".encode() + part + b"\r\n")
    link.sendall(b"0\r\n\r\n")
    c.check("a chunked body works", link.recv(64).startswith(b"HTTP/1.1 200"))
    link.close()


def count_499(server):
    return server.log().count(" 499 ")


def wait_499(server, count, seconds=20):
    end = time.time() + seconds
    while time.time() < end:
        if count_499(server) >= count:
            return True
        time.sleep(0.05)
    return False


def hang_ups(c, server):
    """Closing the connection frees the slot in every phase."""
    phases = [("prefill", "/v1/completions", LONG_PROMPT, 0.02),
              ("decode", "/v1/chat/completions", SLOW, 0.5),
              ("decode, streamed", "/v1/chat/completions", {**SLOW, "stream": True}, 0.5)]
    for name, path, body, wait in phases:
        before = count_499(server)
        link = server.send_raw(path, body)
        time.sleep(wait)
        link.close()
        c.check(f"hang-up in {name} is logged as 499", wait_499(server, before + 1))
        start = time.time()
        reply = server.post("/v1/completions", {"prompt": "Hi", "max_tokens": 1})
        c.check(f"the slot is free after {name}", reply[0] == 200 and time.time() - start < 10)


def closing_after_the_reply(c, server):
    """A client that closes once it has its reply was answered, not lost."""
    before, asked = count_499(server), 20
    for i in range(asked):
        body = {"prompt": "Hi", "max_tokens": 2, "stream": i % 2 == 1}
        link = server.send_raw("/v1/completions", body)
        data = b""
        while b"[DONE]" not in data and b'"lanefold":{' not in data:
            data += link.recv(65536)
        link.close()
    server.post("/v1/completions", {"prompt": "Hi", "max_tokens": 1})
    time.sleep(0.5)
    c.check("a close after the reply is no 499", count_499(server) == before)


def hang_up_queued(c, server):
    """Needs a server with one slot: the second request waits."""
    before = count_499(server)
    busy = server.send_raw("/v1/chat/completions", SLOW)
    time.sleep(0.3)
    waiting = server.send_raw("/v1/chat/completions", SLOW)
    time.sleep(0.3)
    waiting.close()
    c.check("hang-up in the queue", wait_499(server, before + 1, 5))
    c.check("the running one goes on", count_499(server) == before + 1)
    busy.close()
    c.check("then it hangs up too", wait_499(server, before + 2))


def full_queue(c, server):
    """Needs one slot and a queue of one."""
    links = []
    for _ in range(2):
        links.append(server.send_raw("/v1/chat/completions", {**SLOW, "stream": True}))
        time.sleep(0.3)
    reply = server.post("/v1/chat/completions", {**SLOW, "stream": True})
    c.check("a full queue is 503", reply[0] == 503 and error_of(reply)["code"] == "queue_full")
    c.check("with Retry-After", int(reply[1]["Retry-After"]) >= 1)
    c.check("ready says so", status_of(server, "/ready") == 503)
    c.check("health does not", status_of(server, "/health") == 200)
    for link in links:
        link.close()


def status_of(server, path):
    try:
        with urllib.request.urlopen(server.url + path, timeout=10) as reply:
            return reply.status
    except urllib.error.HTTPError as error:
        return error.code


def keep_alive_connection(c, server):
    """Several requests on one connection, an error among them."""
    link = socket.create_connection(server.address, timeout=60)
    seen = []
    for body in (b'{"prompt":"Hi","max_tokens":1}', b"{}", b'{"prompt":"Hi","max_tokens":1}'):
        link.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
                     + str(len(body)).encode() + b"\r\n\r\n" + body)
        data = b""
        while b"\r\n\r\n" not in data:
            data += link.recv(4096)
        head, rest = data.split(b"\r\n\r\n", 1)
        length = int([line for line in head.split(b"\r\n")
                      if line.lower().startswith(b"content-length")][0].split(b":")[1])
        while len(rest) < length:
            rest += link.recv(4096)
        json.loads(rest)
        seen.append(int(head.split()[1]))
    link.close()
    c.check("one connection serves several requests", seen == [200, 400, 200], str(seen))


def health_answers_fast(c, server):
    links = [server.send_raw("/v1/completions", LONG_PROMPT) for _ in range(3)]
    worst = 0
    for _ in range(20):
        start = time.time()
        c.check("health is 200", status_of(server, "/health") == 200)
        worst = max(worst, time.time() - start)
        time.sleep(0.02)
    # A sanitized server's code is slower by the factor that the environment names.
    most = 0.1 * float(os.environ.get("LF_SLOWER", "1"))
    c.check("health within 100 ms", worst < most, f"{worst:.3f} s of {most:.1f}")
    for link in links:
        link.close()


def same_alone_and_together(c, server):
    body = {"messages": [{"role": "user", "content": "What is 47 + 38?"}], "seed": 3,
            "temperature": 0.9, "max_tokens": 40}
    shas = [server.post("/v1/chat/completions", body)[2]["lanefold"]["token_sha256"]]
    threads = []
    for _ in range(3):
        threads.append(threading.Thread(target=lambda: shas.append(
            server.post("/v1/chat/completions", body)[2]["lanefold"]["token_sha256"])))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    c.check("the same tokens alone and together", len(shas) == 4 and len(set(shas)) == 1, str(shas))


def cached_replies_equal_fresh(c, server):
    """engine.md 15: cache hits == fresh, over HTTP, turn after turn."""
    talk = [{"role": "system", "content": "Answer in one word. " * 40},
            {"role": "user", "content": "Count the words of this line. " * 30}]
    for turn in range(3):
        body = {"messages": talk, "seed": 9, "temperature": 0.8, "max_tokens": 60}
        replies = []
        for use in (False, True, True):
            reply = server.post("/v1/chat/completions", {**body, "cache_prompt": use})[2]
            cached = reply["usage"]["prompt_tokens_details"]["cached_tokens"]
            replies.append((cached, reply))
        rows = replies[0][1]["usage"]["prompt_tokens"]
        shas = {reply["lanefold"]["token_sha256"] for _, reply in replies}
        c.check(f"turn {turn}: the same tokens fresh, resumed and whole", len(shas) == 1, str(shas))
        c.check(f"turn {turn}: no cache reads none", replies[0][0] == 0)
        least = 100 if turn else 0
        c.check(f"turn {turn}: a turn resumes the one before", least <= replies[1][0] < rows,
                f"{replies[1][0]} of {rows}")
        c.check(f"turn {turn}: the same prompt again is whole", replies[2][0] == rows,
                f"{replies[2][0]} of {rows}")
        talk = talk + [{"role": "assistant", "content": replies[0][1]["choices"][0]["message"]
                        ["content"] or "Yes."},
                       {"role": "user", "content": "And again, please. " * 10}]
    cache = server.memory()["prompt_cache"]
    c.check("the cap holds", 0 < cache["held_bytes"] <= cache["cap_bytes"], str(cache))
    c.check("hits are counted", cache["hits"] >= 5 and cache["restored_tokens"] > 0, str(cache))


def memory_stays_in_its_plan(c, server):
    """M-6 and M-11: after the largest chunk and launch, and after requests."""
    server.post("/v1/completions", LONG_PROMPT)
    released = server.memory()
    link = server.send_raw("/v1/completions", {**LONG_PROMPT, "stream": True})
    link.recv(1)
    memory = server.memory()
    link.close()
    plan, process = memory["plan"], memory["process"]
    c.check("no line took more than planned", "above its plan" not in server.log())
    for name, size in memory["lines"].items():
        planned = plan["lines"][name]
        c.check(f"{name} within its plan", 0 < size <= 1.02 * planned + 2**20, f"{size} {planned}")
    c.check("KV pages", 0 < memory["kv_pages_used"] <= memory["kv_pages_promised"]
            <= memory["kv_pages_planned"], str(memory))
    c.check("a released slot has no pages",
            released["kv_pages_used"] == released["kv_pages_promised"] == 0, str(released))
    c.check("the peak is above what is resident",
            0 < process["resident_bytes"] <= process["resident_peak_bytes"])
    c.check("the plan fits its budget", plan["need_bytes"] <= plan["budget_bytes"])
    c.check("the log has the plan", server.wait_log(r"plan: KV pages promised +\d+"))


def nothing_private_in_the_log(c, server):
    secret = "Zanzibarquux"
    server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": secret}],
                                         "max_tokens": 2})
    server.post("/v1/chat/completions", {"messages": [{"role": secret, "content": "x"}]})
    time.sleep(0.3)
    c.check("no prompt text in the log", secret not in server.log())
    c.check("one line a request", server.wait_log(r"POST /chat/completions 200 prompt=\d+"))


def processor_seconds(server):
    """What all threads of the process took so far."""
    with open(f"/proc/{server.process.pid}/stat", encoding="ascii") as stat:
        taken = stat.read().rsplit(")", 1)[1].split()
    return (int(taken[11]) + int(taken[12])) / os.sysconf("SC_CLK_TCK")


def idle_takes_no_processor_time(c, server):
    """After the work of a request: the engine, its workers and the HTTP side all sleep."""
    server.post("/v1/completions", {"prompt": "Hello", "max_tokens": 4})
    shares = []
    while len(shares) < 5 and min(shares, default=1) >= 0.01:
        before = processor_seconds(server)
        time.sleep(2)
        shares.append((processor_seconds(server) - before) / 2)
    c.check("an idle server takes below 1 % of a processor", min(shares) < 0.01, str(shares))


FAST = [idle_takes_no_processor_time, malformed_bodies, body_over_the_limit, chunked_body,
        keep_alive_connection, hang_ups,
        closing_after_the_reply,
        health_answers_fast, same_alone_and_together, cached_replies_equal_fresh,
        memory_stays_in_its_plan,
        nothing_private_in_the_log]
ONE_SLOT = [hang_up_queued, full_queue]
