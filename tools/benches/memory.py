"""Four cold prompts of most of the context at once recall their needles within the plan."""
from benches.kit import Server, table, tool


def run():
    with Server("--parallel", "4") as server:
        verdict, report = tool("memory", server.url, "demo", "--prompts", 4, "--length", 3500,
                               "--watch", server.process.pid)
    if report:
        table(["prompt tokens", "needle at", "first token, s", "found"],
              [[row["prompt_tokens"], row["depth"], f"{row['ttft_s']:.2f}", row["needle_found"]]
               for row in report["rows"]])
    return verdict
