"""Log-probabilities are the same drafted, plain, repeated, resumed and in company."""
from benches.kit import Server, tool


def run():
    with Server("--parallel", "8") as server:
        return tool("logprobs", server.url, "demo")[0]
