"""A chunk and a token through each kind of layer at the release's shapes, weights made up."""
from benches.kit import ROOT, Verdict, say, table, tool

FLAGS = ("--dummy-weights", 1, "--engram-rows", 1 << 17, "--min-linear", 0.6, "--max-attention",
         0.2)


def kernels(row):
    """The kernels of a row that take at least a hundredth of its time."""
    for kernel in sorted(row["kernels"], key=lambda kernel: -kernel["seconds"]):
        if kernel["share"] >= 0.01:
            rates = [f"{(kernel[part] or 0) / kernel['seconds'] / 1e9:,.1f}"
                     for part in ("operations", "bytes")]
            yield [kernel["kernel"], f"{1e3 * kernel['seconds']:,.3f}",
                   f"{100 * kernel['share']:.1f}", *rates]


def run():
    verdict, report = tool("layers", ROOT / "tests" / "data", *FLAGS)
    if not report:
        return verdict
    for phase in ("chunk", "decode"):
        rows = [row for row in report["rows"] if row["phase"] == phase]
        table([f"{phase}: kind", "layers", "ms", "linear maps, of the peak",
               "attention and indexer", "bytes, of the read"],
              [[row["kind"], row["layers"], f"{1e3 * row['seconds']:,.1f}",
                f"{row['linear_of_peak']:.2f}", f"{row['attention_share']:.3f}",
                f"{row['of_read']:.2f}"] for row in rows])
        for row in rows:
            table([f"{phase}: {row['kind']}", "ms", "share, %", "Gop/s", "GB/s"],
                  list(kernels(row)))
    found = report["verdict"]
    table(["memory, GB/s", "decode, tokens/s"],
          [[f"{row['bandwidth'] / 1e9:.0f} (estimate)", f"{row['decode_tps']:.1f}"]
           for row in found["estimates"]])
    say(verdict.line)
    say()
    return Verdict(verdict.passed, verdict.line)
