"""Accepted drafts a round by kind of prompt: five each, those that pay, and after a prefix hit."""
import collections

from benches.kit import Server, Verdict, ask, eval_body, eval_items, table

MODES = {"five drafts": ("--draft-depth", "5"), "chosen by cost": (), "none": ("--no-drafts",)}


class Sums:
    def __init__(self):
        self.rounds = self.accepted = self.drafted = 0

    def add(self, facts):
        self.rounds += facts["rounds"]
        self.accepted += facts["accepted"]
        self.drafted += facts["drafted"]

    def a_round(self):
        return f"{self.accepted / self.rounds:.2f}" if self.rounds else ""


def ask_all(items, flags):
    """Every question twice: the second resumes the first one's prompt."""
    first, second = collections.defaultdict(Sums), collections.defaultdict(Sums)
    shas = []
    with Server("--parallel", "1", *flags) as server:
        for item in items:
            path, body = eval_body(item)
            for sums in (first, second):
                facts = ask(server, path, body)["lanefold"]
                sums[item["kind"].removesuffix("_think")].add(facts)
                shas.append(facts["token_sha256"])
    return first, second, shas


def run():
    items = eval_items()
    found = {name: ask_all(items, flags) for name, flags in MODES.items()}
    five, hits, _ = found["five drafts"]
    chosen = found["chosen by cost"][0]
    table(["prompt", "accepted a round of five", "the same after a prefix hit", "chosen by cost",
           "rounds", "drafted there"],
          [[kind, five[kind].a_round(), hits[kind].a_round(), chosen[kind].a_round(),
            chosen[kind].rounds, chosen[kind].drafted] for kind in sorted(five)])
    plain = found["none"][2]
    unequal = sum(sha != own for _, _, shas in found.values() for sha, own in zip(shas, plain))
    fresh, resumed = (sum(s.accepted for s in sums.values()) / sum(s.rounds for s in sums.values())
                      for sums in (five, hits))
    line = (f"{3 * len(plain)} replies, {unequal} unequal; {fresh:.3f} drafts accepted a round, "
            f"{resumed:.3f} after a prefix hit")
    # What the server learned meanwhile may move a draft between its two sources.
    return Verdict(not unequal and resumed >= 0.99 * fresh, line)
