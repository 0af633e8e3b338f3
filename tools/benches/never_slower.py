"""Whether any drafted cell is slower than the same cell without drafts, on fresh servers."""
from benches.kit import BINARY, DEMO, table, tool

COMMAND = f"{BINARY} serve {DEMO} --port 0"


def run():
    verdict, report = tool("never-slower", "--serve", COMMAND, "--tokens", 128, "--reps", 15,
                           "--temperatures", "0,1", "--levels", "1,4", "--blocks", 5,
                           "--blocks-max", 8)
    if report:
        table(["prompt", "temperature", "streams", "drafts, tokens/s", "plain", "ratio",
               "its bounds", "blocks", "verdict"],
              [[cell["prompt"], f"{cell['temperature']:g}", cell["level"],
                f"{cell['drafts']['median']:,.0f}", f"{cell['plain']['median']:,.0f}",
                f"{cell['ratio']:.3f}", f"{cell['ratio_low'] or 0:.3f} to "
                f"{cell['ratio_high'] or 0:.3f}", cell["blocks"], cell["verdict"]]
               for cell in report["cells"]])
    return verdict
