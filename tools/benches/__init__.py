"""The benches of `make bench`: one module each, with a run() that gives a Verdict."""
