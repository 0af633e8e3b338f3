"""Log-probabilities under the OpenAI library, against themselves and against `lanefold score`."""
import json
import math
import subprocess
import tempfile
import threading
from pathlib import Path

import harness
from test_sdk import PLAIN, THINK, WEATHER, ask, client_of

WANT = {"logprobs": True, "top_logprobs": 20}


def plain_rows(entries):
    return [(entry.token, entry.bytes, entry.logprob,
             [(best.token, best.logprob) for best in entry.top_logprobs]) for entry in entries]


def reasoning_of(logprobs):
    return (logprobs.model_extra or {}).get("reasoning_content") or []


def text_of(entries):
    return b"".join(bytes(entry.bytes) for entry in entries).decode()


def check_entries(c, entries, greedy):
    for entry in entries:
        best = entry.top_logprobs
        values = [one.logprob for one in best]
        c.check("20 alternatives, sorted", len(best) == 20 and
                values == sorted(values, reverse=True), str(values))
        c.check("probabilities", all(value <= 0 for value in values + [entry.logprob]) and
                sum(map(math.exp, values)) < 1 + 1e-5)
        if greedy:
            c.check("the greedy token is the best one", entry.token == best[0].token and
                    entry.logprob == best[0].logprob, entry.token)
        same = [one.logprob for one in best if one.bytes == entry.bytes]
        c.check("the token among its alternatives", same in ([], [entry.logprob]), entry.token)


def chat_logprobs(c, server):
    api = client_of(server)
    for text, mode, temperature in (("Hello!", PLAIN, 0), ("What is 47 + 38?", THINK, 0),
                                    ("Tell me a story.", PLAIN, 1.2)):
        request = {**ask(text, max_tokens=40, **WANT), "temperature": temperature, "seed": 5}
        choice = api.chat.completions.create(**request, **mode).choices[0]
        c.check("entries spell the content", text_of(choice.logprobs.content) ==
                choice.message.content, text)
        check_entries(c, choice.logprobs.content, temperature == 0)
        c.check("no refusal", choice.logprobs.refusal is None)
        streamed, thoughts = [], []
        for chunk in api.chat.completions.create(**request, stream=True, **mode):
            for part in chunk.choices:
                c.check("entries with text only", bool(part.logprobs) == bool(
                    part.delta.content or (part.delta.model_extra or {}).get("reasoning_content")))
                streamed += part.logprobs.content if part.logprobs else []
                thoughts += reasoning_of(part.logprobs) if part.logprobs else []
        c.check("streamed = whole", plain_rows(streamed) == plain_rows(choice.logprobs.content))
        c.check("reasoning streamed = whole", thoughts == reasoning_of(choice.logprobs))
        c.check("reasoning entries with thinking only", bool(thoughts) == (mode is THINK))
        spelled = b"".join(bytes(entry["bytes"]) for entry in thoughts).decode()
        c.check("entries spell the reasoning", spelled ==
                ((choice.message.model_extra or {}).get("reasoning_content") or ""))
        again = api.chat.completions.create(**request, **{"extra_body": {
            **mode["extra_body"], "draft": False}}).choices[0]
        c.check("the same rows undrafted", plain_rows(again.logprobs.content) ==
                plain_rows(choice.logprobs.content))


def call_logprobs(c, server):
    api = client_of(server)
    choice = api.chat.completions.create(**ask("What is the weather in Paris?", tools=WEATHER,
                                               **WANT), **PLAIN).choices[0]
    c.check("a call has no entries", choice.message.tool_calls and
            text_of(choice.logprobs.content) == (choice.message.content or ""))


def completion_logprobs(c, server):
    api = client_of(server)
    request = {"model": "demo", "prompt": "def fib(n):\n", "max_tokens": 30, "temperature": 0,
               "logprobs": 3}
    choice = api.completions.create(**request).choices[0]
    lists = choice.logprobs
    c.check("tokens spell the text", "".join(lists.tokens) == choice.text)
    starts = [len("".join(lists.tokens[:i])) for i in range(len(lists.tokens))]
    c.check("offsets", lists.text_offset == starts, str(lists.text_offset))
    for token, value, best in zip(lists.tokens, lists.token_logprobs, lists.top_logprobs):
        c.check("greedy is the best", best[token] == value == max(best.values()), token)
    total = {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
    for chunk in api.completions.create(**request, stream=True):
        for part in chunk.choices:
            for name, held in total.items():
                held += getattr(part.logprobs, name) if part.logprobs else []
    c.check("completion streamed = whole", total == lists.model_dump(include=set(total)))
    stopped = api.completions.create(**request, stop=["for"]).choices[0]
    c.check("a stop cuts the lists", "".join(stopped.logprobs.tokens).startswith(stopped.text) and
            len(stopped.logprobs.tokens) < len(lists.tokens))


def score_agrees(c, server):
    """The greedy continuation, scored as a text after its prompt, has the values served."""
    ids = {"return_token_ids": True, "return_prompt_token_ids": True}
    prompt = "Mira lives in Oslo. Mira has a red"
    body = {"prompt": prompt, "add_special_tokens": True, "max_tokens": 12, "temperature": 0,
            "logprobs": 0, "ignore_eos": True, **ids}
    reply = server.post("/v1/completions", body)[2]
    text = prompt + reply["choices"][0]["text"]
    want = list(zip(reply["lanefold"]["token_ids"],
                    reply["choices"][0]["logprobs"]["token_logprobs"]))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "text"
        path.write_text(text)
        out = subprocess.run([harness.BINARY, "score", str(harness.ROOT / "models" / "demo"),
                              str(path), "--json"], capture_output=True, check=True)
    scored = [(row["id"], row["logprob"]) for row in json.loads(out.stdout)["logprobs"]]
    scored = scored[len(reply["lanefold"]["prompt_token_ids"]) - 1:]
    # The text may be cut into other tokens near its end; the common ones must be many.
    same = 0
    while same < min(len(want), len(scored)) and want[same][0] == scored[same][0]:
        c.check("score = completions", want[same][1] == scored[same][1],
                f"{want[same]} {scored[same]}")
        same += 1
    c.check("several tokens compared", same >= 4, f"{same} of {len(want)}")


def same_rows_alone_and_together(c, server):
    body = {"messages": [{"role": "user", "content": "What is 47 + 38?"}], "seed": 3,
            "temperature": 0.9, "max_tokens": 40, **WANT}
    rows = [server.post("/v1/chat/completions", body)[2]["choices"][0]["logprobs"]]
    threads = [threading.Thread(target=lambda: rows.append(
        server.post("/v1/chat/completions", body)[2]["choices"][0]["logprobs"])) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    c.check("the same rows alone and together", len(rows) == 4 and rows[0]["reasoning_content"]
            + rows[0]["content"] and all(row == rows[0] for row in rows))


ALL = [chat_logprobs, same_rows_alone_and_together, call_logprobs, completion_logprobs,
       score_agrees]
