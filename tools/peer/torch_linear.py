"""Times PyTorch's linear one call at a time, as the lines of standard input ask (tools/peers)."""
import sys
import time

import torch

TYPES = {"torch_bf16": torch.bfloat16, "torch_f32": torch.float32}


def make(name, inputs, outputs, count):
    """Weights that repeat one tile of normal numbers, each matrix in memory of its own."""
    tile = torch.randn(64, inputs).to(TYPES[name])
    return [tile.repeat((outputs + 63) // 64, 1)[:outputs].contiguous() for _ in range(count)]


def call(weights, rows, first, count):
    x = torch.randn(rows, weights[0].shape[1]).to(weights[0].dtype)
    chosen = [weights[(first + i) % len(weights)] for i in range(count)]
    wall, cpu = time.perf_counter(), time.process_time()
    for weight in chosen:
        torch.nn.functional.linear(x, weight)
    return time.perf_counter() - wall, time.process_time() - cpu


def main():
    weights = []
    for line in sys.stdin:
        verb, *words = line.split()
        seconds = (0, 0)
        if verb == "set":
            weights = make(words[0], *map(int, words[1:]))
        else:
            rows, threads, first, count = map(int, words)
            torch.set_num_threads(threads)
            seconds = call(weights, rows, first, count)
        print(f"{seconds[0]:.9f} {seconds[1]:.9f}", flush=True)


with torch.inference_mode():
    main()
