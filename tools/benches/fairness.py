"""What a prompt of most of the context does to running replies and to short requests."""
from benches.kit import Server, Verdict, say, tool

LIMITS = ("--max-gap", 2, "--min-decode-share", 0.1, "--max-short-ttft", 10)


def run():
    with Server("--parallel", "8") as server:
        verdict, report = tool("fairness", server.url, "demo", "--active", 3, "--words", 2500,
                               "--tokens", 1500, *LIMITS)
    if not report:
        return verdict
    found = report["verdict"]
    line = (f"worst gap {found['gap_s_max']:.3f} s, rate {found['tps_before']:,.0f} tokens/s "
            f"before and {found['tps_during']:,.0f} during; {verdict.line}")
    say(line)
    say()
    return Verdict(verdict.passed, line)
