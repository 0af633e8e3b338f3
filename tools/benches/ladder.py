"""One long chat asked again in many ways: what is reused, and is each reply that of a cold run?"""
import tempfile
from pathlib import Path

from benches.kit import Server, Verdict, ask, say, serve_has, table
from benches.talk import sentences

MAX_TOKENS, SYSTEM, CHANGED_IDS = 80, sentences(130, 1), 30
# Reasoning of old turns is in the prompt only where a request keeps it.
KEPT = {"chat_template_kwargs": {"drop_thinking": False}}
# Rows before the generation prompt are a mark; its own two are the ones read again.
HEADER_ROWS = 2
SHARED_ROWS, LAST_MESSAGE_ROWS = 1024, 600


def chat(*turns):
    roles = ("user", "assistant")
    return [{"role": "system", "content": SYSTEM},
            *({"role": roles[i % 2], **({"content": turn} if isinstance(turn, str) else turn)}
              for i, turn in enumerate(turns))]


def shared_rows(ids, known):
    """How many leading rows of a prompt some earlier prompt or reply has."""
    best = 0
    for rows in known:
        same = next((i for i, (a, b) in enumerate(zip(ids, rows)) if a != b),
                    min(len(ids), len(rows)))
        best = max(best, same)
    return best


class Ladder:
    """Sends each rung to the server with a cache and to one without."""

    def __init__(self, cold):
        self.server, self.cold = None, cold
        self.known, self.rows, self.failed = [], [], []

    def ask(self, server, messages, more):
        return ask(server, "/v1/chat/completions", {
            "messages": messages, "temperature": 0, "max_tokens": MAX_TOKENS, **more,
            "return_prompt_token_ids": True, "return_token_ids": True})

    def rung(self, name, messages, more, missed_max):
        """missed_max: shared rows that may be read again, because no mark can stand there."""
        reply, plain = (self.ask(server, messages, more) for server in (self.server, self.cold))
        facts, usage = reply["lanefold"], reply["usage"]
        ids = facts["prompt_token_ids"]
        cached = usage["prompt_tokens_details"]["cached_tokens"]
        shared = shared_rows(ids, self.known)
        equal = facts["token_sha256"] == plain["lanefold"]["token_sha256"]
        fresh = plain["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
        # The row of the reply's last token never ran.
        self.known.append(ids + facts["token_ids"][:-1])
        if not (equal and fresh and shared - missed_max <= cached <= shared):
            self.failed.append(name)
        self.rows.append([name, len(ids), shared, cached, "yes" if equal else "NO"])
        return reply["choices"][0]["message"], ids

    def after_restart(self, messages, least):
        shared = self.known[0]
        self.known = [shared] if least else []
        self.rung("chat, after a restart", messages, {}, len(shared) - least)

    def forget(self):
        self.known = []


def first_chat():
    return chat(sentences(80, 2), "The code of Emma is 4821.",
                sentences(60, 3) + "\n\nWhat is the code of Emma?")


def echoes(ladder, name, messages, more, kept):
    """The next turn, with the reply in it as clients send it back."""
    message, _ = ladder.rung(name, messages, more, 0)
    ladder.rung(name + ", sent again", messages, more, 0)
    text, thought = message["content"], message.get("reasoning_content", "")
    ways = (("echoed", {"content": text, "reasoning_content": thought}),
            ("reasoning omitted", {"content": text}),
            ("reasoning empty", {"content": text, "reasoning_content": ""}),
            ("reasoning one space", {"content": text, "reasoning_content": " "}))
    for way, echo in ways:
        following = [*messages, {"role": "assistant", **echo},
                     {"role": "user", "content": "What is the code of Leo?"}]
        whole = kept and way == "echoed"
        ladder.rung(f"{name}, next turn, {way}", following, more, 0 if whole else HEADER_ROWS)


def edits(ladder, messages):
    """Two edits of the last message's end: back to before it, then to where both part."""
    text = messages[-1]["content"]
    for number, word in enumerate(("lamp", "kite")):
        cut = text[:len(text) - len(f" {word}") * CHANGED_IDS] + f" {word}" * CHANGED_IDS
        # The first edit may reuse up to the message it edits, the second what edits share.
        name = f"the last {CHANGED_IDS} tokens changed{', again' if number else ''}"
        ladder.rung(name, [*messages[:-1], {"role": "user", "content": cut}], {},
                    HEADER_ROWS if number else LAST_MESSAGE_ROWS)


def run():
    messages = first_chat()
    with Server("--prompt-cache-gib", "0") as cold, tempfile.TemporaryDirectory() as folder:
        ladder, flags = Ladder(cold), ()
        if serve_has("--spill-dir"):
            flags = ("--spill-gib", "0.1", "--spill-dir", str(Path(folder) / "spill"),
                     "--keep-shared")
        with Server() as ladder.server:
            echoes(ladder, "reasoning kept", messages, KEPT, True)
        ladder.forget()
        with Server(*flags) as ladder.server:
            echoes(ladder, "chat", messages, {}, False)
            edits(ladder, messages)
        with Server(*flags) as ladder.server:
            # On disk are the blocks that conversations share, in memory is nothing.
            ladder.after_restart(messages, SHARED_ROWS if flags else 0)
    table(["rung", "prompt tokens", "shared", "cached", "equal to a cold run"], ladder.rows)
    unequal = sum(row[-1] != "yes" for row in ladder.rows)
    for name in ladder.failed:
        say(f"FAILED: {name}")
    line = f"{len(ladder.rows)} rungs, {unequal} unequal, {len(ladder.failed)} failed"
    return Verdict(not ladder.failed, line)
