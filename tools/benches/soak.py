"""2,000 requests of 24 clients on 16 lanes, of which three in ten hang up somewhere."""
import sys

from benches.kit import ROOT, Verdict, script


def run():
    passed, lines = script(sys.executable, ROOT / "tests" / "server" / "soak.py", "--requests",
                           2000, "--distinct", 100, "--growth", 0.02)
    said = [line for line in lines if line.startswith("soak: ")]
    return Verdict(passed, said[-1] if said else "the soak did not end")
