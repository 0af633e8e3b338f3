"""Speed of the tokenizer beside Hugging Face `tokenizers`: same text, same ids, one thread."""
import hashlib
import json
import os
import random
import struct
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
VENV = BUILD / ".venv-bench"
SHARED = ROOT.parent / "shared"
TEXT_BYTES, CHUNK_BYTES, ROUNDS = 4_000_000, 16_384, 3
SUFFIXES = {".md", ".c", ".h", ".cu", ".py", ".build"}


def enter_venv():
    """Starts again inside the venv that has the library to compare with."""
    python = VENV / "bin" / "python"
    if Path(sys.prefix) == VENV:
        return
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", "tokenizers"], check=True)
    env = dict(os.environ, TOKENIZERS_PARALLELISM="false", RAYON_NUM_THREADS="1")
    os.execve(str(python), [str(python), __file__, *sys.argv[1:]], env)


def strings_of(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from strings_of(item)


def house_texts():
    for root in (ROOT, SHARED / "spec"):
        for path in sorted(root.rglob("*")):
            if path.suffix in SUFFIXES and path.is_file() and BUILD not in path.parents:
                yield path.read_text(errors="replace")
    for path in sorted((ROOT / "tests" / "data").rglob("*.json")):
        yield "\n".join(strings_of(json.loads(path.read_text())))


def library_texts():
    """Python's own library: code and prose that every machine has, to reach the size."""
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("**/*.py")):
        if "site-packages" not in path.parts and "test" not in path.parts:
            yield path.read_text(errors="replace")


def mixed_text():
    parts, size = [], 0
    for source in (house_texts, library_texts):
        for text in source():
            parts.append(text)
            size += len(text.encode())
            if size >= TEXT_BYTES:
                return "\n".join(parts)
    return "\n".join(parts)


def wide_text():
    """Lines of the test data with many non-ASCII characters, cut and joined anew."""
    lines = set()
    for text in house_texts():
        for line in text.split("\n"):
            if sum(ord(c) > 127 for c in line) * 3 > len(line) > 3:
                lines.add(line)
    lines, dice, out = sorted(lines), random.Random(1), []
    size = 0
    while size < TEXT_BYTES // 4:
        line = dice.choice(lines)
        start = dice.randrange(len(line))
        out.append(line[start:start + dice.randrange(4, 60)])
        size += len(out[-1].encode()) + 1
    return "\n".join(out)


def chunks_of(text):
    text = text.replace("\0", " ").encode("utf-8", "replace").decode()
    return [text[i:i + CHUNK_BYTES] for i in range(0, len(text), CHUNK_BYTES)]


def digest(ids):
    return hashlib.sha256(struct.pack(f"<{len(ids)}I", *ids)).hexdigest()


def best_of(call):
    best = None
    for _ in range(ROUNDS):
        start = time.perf_counter()
        result = call()
        spent = time.perf_counter() - start
        best = spent if best is None else min(best, spent)
    return best, result


def compare(name, tokenizer_path, text_name, chunks):
    from tokenizers import Tokenizer
    size = sum(len(chunk.encode()) for chunk in chunks)
    path = BUILD / "bench-tokenizer.txt"
    path.write_bytes(b"".join(chunk.encode() + b"\0" for chunk in chunks))
    program = BUILD / "tests" / "text" / "tokenizer_bench"
    out = subprocess.run([str(program), str(tokenizer_path), str(path)], check=True,
                         capture_output=True, text=True).stdout
    path.unlink()
    ours = json.loads(out)
    theirs = Tokenizer.from_file(str(tokenizer_path))
    one_by_one = [lambda: [theirs.encode(c, add_special_tokens=False) for c in chunks],
                  lambda: theirs.encode_batch_fast(chunks, add_special_tokens=False)]
    (encode_s, encoded), (fast_s, _) = best_of(one_by_one[0]), best_of(one_by_one[1])
    ids = [i for e in encoded for i in e.ids]
    same = len(ids) == ours["ids"] and digest(ids) == ours["sha256"]
    speed = size / ours["encode_s"] / 1e6
    print(f"{name:8} {text_name:6} {size / 1e6:5.2f} MB {len(ids):8} ids"
          f"  lanefold {speed:7.1f} MB/s"
          f"  encode {size / encode_s / 1e6:6.2f} MB/s ({encode_s / ours['encode_s']:.1f}x)"
          f"  encode_batch_fast {size / fast_s / 1e6:6.2f} MB/s ({fast_s / ours['encode_s']:.1f}x)"
          f"  ids {'equal' if same else 'DIFFER'}", flush=True)
    return same


def main():
    enter_venv()
    subprocess.run(["ninja", "-C", str(BUILD), "tests/text/tokenizer_bench"], check=True,
                   stdout=subprocess.DEVNULL)
    texts = [("mixed", chunks_of(mixed_text())), ("wide", chunks_of(wide_text()))]
    tokenizers = [("demo", ROOT / "models" / "demo" / "tokenizer.json"),
                  ("release", SHARED / "data" / "v41-tokenizer" / "tokenizer.json")]
    same = [compare(name, path, text_name, chunks) for name, path in tokenizers if path.is_file()
            for text_name, chunks in texts]
    print(f"{len(same)} comparisons, {same.count(False)} unequal")
    return 0 if all(same) else 1


def run():
    """The comparison in a process of its own, because its environment has the other library."""
    from benches.kit import Verdict, script
    passed, lines = script(sys.executable, __file__)
    return Verdict(passed, lines[-1] if lines else "nothing was compared")


if __name__ == "__main__":
    sys.exit(main())
