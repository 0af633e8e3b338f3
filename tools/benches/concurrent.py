"""N streams together give the tokens they give alone, and those are the undrafted ones."""
from benches.kit import Server, Verdict, table, tool, worst

FLAGS = ("--tokens", 128, "--temperatures", "0,1", "--levels", "1,4,16", "--alone", "--serial",
         "--strict")


def cells_table(report):
    cells = report["cells"] if report else []
    levels = sorted({cell["level"] for cell in cells})
    rows = {}
    for cell in cells:
        row = rows.setdefault((cell["prompt"], cell["temperature"]), {})
        row[cell["level"]] = f"{cell['aggregate_tps_median']:,.0f}"
    table(["aggregate tokens/s: prompt, temperature", *(f"{level} streams" for level in levels)],
          [[f"{prompt}, {heat:g}", *(row.get(level, "") for level in levels)]
           for (prompt, heat), row in rows.items()])


def run():
    verdicts = []
    for more in ((), ("--mixed",)):
        with Server("--parallel", "16", "--prompt-cache-gib", "0") as server:
            verdict, report = tool("concurrent", server.url, "demo", *FLAGS, *more)
        cells_table(report)
        verdicts.append(Verdict(verdict.passed, " ".join((*more, verdict.line))))
    return worst(verdicts)
