"""Aggregate decode of 1 to 16 streams: how it scales, and what a round of N rows takes."""
from benches.kit import Server, Verdict, say, table, tool, worst

LEVELS, TOKENS = (1, 2, 4, 8, 16), 256
MODES = {"no drafts": ("--no-drafts",), "drafts auto": ()}


def line_through(points):
    """Least squares: y at 0 and the slope."""
    n = len(points)
    x_mean, y_mean = sum(x for x, _ in points) / n, sum(y for _, y in points) / n
    slope = (sum((x - x_mean) * (y - y_mean) for x, y in points) /
             sum((x - x_mean) ** 2 for x, _ in points))
    return y_mean - slope * x_mean, slope


def rates_of(flags):
    with Server("--parallel", str(LEVELS[-1]), "--prompt-cache-gib", "0", *flags) as server:
        verdict, report = tool("concurrent", server.url, "demo", "--tokens", TOKENS, "--reps", 5,
                               "--temperatures", "0", "--levels", ",".join(map(str, LEVELS)),
                               "--alone", "--strict")
    rates = {}
    for cell in report["cells"] if report else []:
        rates.setdefault(cell["level"], []).append(cell["aggregate_tps_median"])
    return verdict, {level: sum(both) / len(both) for level, both in rates.items()}


def run():
    verdicts, rows = [], []
    for name, flags in MODES.items():
        verdict, rate = rates_of(flags)
        verdicts.append(Verdict(verdict.passed, f"{name}: {verdict.line}"))
        if len(rate) < len(LEVELS):
            continue
        rows.append([f"{name}, tokens/s", *(f"{rate[level]:,.0f}" for level in LEVELS)])
        rows.append([f"{name}, to one stream",
                     *(f"{rate[level] / rate[1]:.2f}" for level in LEVELS)])
        if not flags:
            continue
        rounds = [(level, 1e6 * level / rate[level]) for level in LEVELS]
        rows.append(["a round, microseconds", *(f"{us:,.0f}" for _, us in rounds)])
        whole, each = line_through(rounds)
    table(["streams", *LEVELS], rows)
    # On a disturbed machine the line means nothing.
    if len(rows) == 5 and whole > 0 and each > 0:
        say(f"A round of N rows takes {whole:,.0f} + {each:,.0f} N microseconds (least squares): "
            f"sharing it gives at most {(whole + each) / each:.2f} times one stream.")
        say()
    return worst(verdicts)
