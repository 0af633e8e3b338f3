"""Whether a prompt of 300,000 tokens in a slot of 1,048,576 positions takes the memory planned."""
import sys

from benches.kit import ROOT, Verdict, script


def run():
    passed, lines = script(sys.executable, ROOT / "tools" / "long_context.py")
    return Verdict(passed, lines[-1] if lines else "it printed nothing")
