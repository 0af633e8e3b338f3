"""What a prompt of most of the context does to running replies and to short requests."""
from statistics import median

from benches.kit import Server, Verdict, say, tool

# Replies keep a quarter of the time (L-27), and of their rate less: a round after a chunk finds
# cold caches, and the short requests are in it too.
GAP_S, SHARE, SHORT_TTFT_S, SCENES = 2, 0.1, 10, 3
LIMITS = ("--max-gap", GAP_S, "--max-short-ttft", SHORT_TTFT_S)


def run():
    shares = []
    for scene in range(SCENES):
        with Server("--parallel", "8") as server:
            verdict, report = tool("fairness", server.url, "demo", "--active", 3, "--words", 2500,
                                   "--tokens", 1500, "--seed", 7319 + scene, *LIMITS)
        if not verdict.passed or not report:
            return verdict
        found = report["verdict"]
        shares.append(found["share"])
        say(f"worst gap {found['gap_s_max']:.3f} s, rate {found['tps_before']:,.0f} tokens/s "
            f"before and {found['tps_during']:,.0f} during; {verdict.line}")
    say()
    return Verdict(median(shares) >= SHARE, f"running replies kept "
                   f"{', '.join(f'{share:.3f}' for share in shares)} of their rate (median at "
                   f"least {SHARE}); {verdict.line}")
