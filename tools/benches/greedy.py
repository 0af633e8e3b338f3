"""Whether greedy replies on the GPU are the CPU's, and by how little the two differ where not."""
from benches.kit import DEVICE, Server, Verdict, ask, eval_items, say, table

# A difference is the arithmetic's where the CPU's two best are this close, as the goldens judge.
MARGIN = 1.0


def replies(device):
    """Tokens of each question's greedy reply, and the two best of each with their logarithms."""
    found = []
    with Server("--parallel", "8", device=device) as server:
        for item in eval_items():
            body = {"prompt": item["prompt_ids"], "max_tokens": item["max_tokens"],
                    "temperature": 0, "logprobs": 2}
            logprobs = ask(server, "/v1/completions", body)["choices"][0]["logprobs"]
            found.append((logprobs["tokens"], logprobs["top_logprobs"]))
    return found


def difference(cpu, gpu):
    """Where two replies part, and how far apart the CPU's two best tokens are there."""
    (tokens, best), (others, _) = cpu, gpu
    same = next((i for i, (a, b) in enumerate(zip(tokens, others)) if a != b),
                min(len(tokens), len(others)))
    first, second = sorted(best[min(same, len(best) - 1)].values(), reverse=True)[:2]
    return same, first - second


def run():
    if not DEVICE:
        raise RuntimeError("the CPU is compared with LF_DEVICE, and that is not set")
    cpu, gpu = replies(("--device", "cpu")), replies(DEVICE)
    apart = [(i, *difference(a, b)) for i, (a, b) in enumerate(zip(cpu, gpu)) if a[0] != b[0]]
    if apart:
        table(["question", "equal tokens", "margin there, nats"],
              [[i, same, f"{margin:.4f}"] for i, same, margin in apart])
    line = (f"{len(cpu)} replies, {sum(len(tokens) for tokens, _ in cpu)} tokens, {len(apart)} "
            f"replies differ, widest margin {max((row[2] for row in apart), default=0):.4f}")
    say(line)
    say()
    return Verdict(all(margin <= MARGIN for _, _, margin in apart), line)
