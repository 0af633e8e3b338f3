"""Whether any drafted cell is slower than the same cell without drafts, on fresh servers."""
import os

from benches.kit import BINARY, DEMO, DEVICE, say, table, tool


def places():
    """Commands that keep the server's processors and the clients' apart: two each, or one each."""
    cpus = [str(cpu) for cpu in sorted(os.sched_getaffinity(0))]
    if len(cpus) < 2:
        return [[], []]
    each = 2 if len(cpus) > 3 else 1
    return [["taskset", "-c", ",".join(cpus[i:i + each])] for i in (0, each)]


def tell(cell):
    """A cell can take many minutes: each is told when it is decided."""
    say(f"{cell['prompt']} T {cell['temperature']:g}, {cell['level']} streams: "
        f"{cell['ratio']:.3f}, {cell['blocks']} blocks, {cell['verdict']}")


def run():
    server, clients = places()
    # One thread: several wait for each other, and those waits vary more than drafts matter.
    command = " ".join([*server, BINARY, "serve", DEMO, "--port", "0", "--threads", "1", *DEVICE])
    # Servers differ more than a server's repetitions: many blocks of short ones decide sooner.
    verdict, report = tool("never-slower", "--serve", command, "--tokens", 128, "--reps", 3,
                           "--temperatures", "0,1", "--levels", "1,4", "--blocks", 5,
                           "--blocks-max", 64, under=clients, told=tell)
    if report:
        table(["prompt", "temperature", "streams", "drafts, tokens/s", "plain", "ratio",
               "its bounds", "blocks", "verdict"],
              [[cell["prompt"], f"{cell['temperature']:g}", cell["level"],
                f"{cell['drafts']['median']:,.0f}", f"{cell['plain']['median']:,.0f}",
                f"{cell['ratio']:.3f}", f"{cell['ratio_low'] or 0:.3f} to "
                f"{cell['ratio_high'] or 0:.3f}", cell["blocks"], cell["verdict"]]
               for cell in report["cells"]])
    return verdict
