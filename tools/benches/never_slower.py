"""Whether any drafted cell is slower than the same cell without drafts, on fresh servers."""
import os

from benches.kit import BINARY, DEMO, table, tool


def places():
    """Commands that put the server on one processor and the clients on another, where two are."""
    cpus = sorted(os.sched_getaffinity(0))
    return [["taskset", "-c", str(cpu)] for cpu in cpus[:2]] if len(cpus) > 1 else [[], []]


def run():
    server, clients = places()
    # One thread: several wait for each other, and those waits vary more than drafts matter.
    command = " ".join([*server, BINARY, "serve", DEMO, "--port", "0", "--threads", "1"])
    verdict, report = tool("never-slower", "--serve", command, "--tokens", 128, "--reps", 10,
                           "--temperatures", "0,1", "--levels", "1,4", "--blocks", 5,
                           "--blocks-max", 12, under=clients)
    if report:
        table(["prompt", "temperature", "streams", "drafts, tokens/s", "plain", "ratio",
               "its bounds", "blocks", "verdict"],
              [[cell["prompt"], f"{cell['temperature']:g}", cell["level"],
                f"{cell['drafts']['median']:,.0f}", f"{cell['plain']['median']:,.0f}",
                f"{cell['ratio']:.3f}", f"{cell['ratio_low'] or 0:.3f} to "
                f"{cell['ratio_high'] or 0:.3f}", cell["blocks"], cell["verdict"]]
               for cell in report["cells"]])
    return verdict
