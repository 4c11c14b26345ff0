"""PyTorch's side of bench/compare/ops, with the problems of ops.cpp: one line of JSON."""
import argparse
import json
import statistics
import time

import torch
import torch.nn.functional as F


def numbers(*shape, low=-1.0, high=1.0):
    return torch.empty(shape).uniform_(low, high)


def resize(shape, size, **options):
    return [numbers(*shape)], lambda x: F.interpolate(x, size=size, **options)


def recurrent(kind, batch, h):
    # The product of inputs and weights is not part of Athanor's op, so it is made small: one feature.
    layer = kind(1, h, batch_first=True)
    x = numbers(batch, 64, 1)
    parameters = list(layer.parameters())
    return [x, *parameters], lambda x, *_: layer(x)[0]


def scattered(i, below):
    return i * 2654435761 % below


def ctc():
    targets = torch.tensor([1 + scattered(i, 63) for i in range(16 * 24)]).reshape(16, 24)
    times, labels = torch.tensor([128 - i for i in range(16)]), torch.tensor([24 - i % 5 for i in range(16)])
    return [numbers(128, 16, 64)], lambda x: F.ctc_loss(F.log_softmax(x, -1), targets, times, labels)


def csr():
    starts = torch.arange(10001) * 10
    columns = torch.tensor([scattered(i, 10000) for i in range(100000)]).reshape(-1, 10).sort(1).values.flatten()
    return ([numbers(100000), numbers(10000, 64)],
            lambda values, dense: torch.sparse_csr_tensor(starts, columns, values, (10000, 10000)) @ dense)


def roi():
    from torchvision.ops import roi_align
    rows = []
    for i in range(128):
        at = [float(scattered(5 * i + k, 400)) for k in range(5)]
        rows.append([i % 2, at[1], at[2], at[1] + 20 + at[3] / 2, at[2] + 20 + at[4] / 2])
    boxes = torch.tensor(rows)
    return [numbers(2, 64, 50, 50)], lambda x: roi_align(x, boxes, 7, 0.0625, 2)


def rotary(interleaved):
    angle = torch.arange(128)[:, None] * 10000 ** (-torch.arange(32) / 32)
    c, s = torch.cos(angle), torch.sin(angle)

    def turned(x):
        a, b = (x[..., ::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
        both = a * c - b * s, b * c + a * s
        return torch.stack(both, -1).flatten(-2) if interleaved else torch.cat(both, -1)
    return [numbers(8, 16, 128, 64)], turned


def grid(shape):
    return numbers(8, 64, 64, 2)


def nearest():
    at = numbers(8, 64, 64, 2)
    return [numbers(8, 32, 64, 64)], lambda x: F.grid_sample(x, at, mode="nearest", align_corners=False)


PROBLEMS = {
    "lstm": lambda: recurrent(torch.nn.LSTM, 32, 256),
    "lstm 128": lambda: recurrent(torch.nn.LSTM, 32, 128),
    "lstm 512": lambda: recurrent(torch.nn.LSTM, 8, 512),
    "gru": lambda: recurrent(torch.nn.GRU, 32, 256),
    "gru 128": lambda: recurrent(torch.nn.GRU, 32, 128),
    "gru 512": lambda: recurrent(torch.nn.GRU, 8, 512),
    "ctc_loss": ctc,
    "grid_sample": lambda: ([numbers(8, 32, 64, 64), numbers(8, 64, 64, 2)],
                            lambda x, at: F.grid_sample(x, at, align_corners=False)),
    "grid_sample nearest": nearest,
    "affine_grid": lambda: ([numbers(8, 2, 3)], lambda t: F.affine_grid(t, [8, 3, 224, 224], align_corners=False)),
    "interpolate bilinear": lambda: resize((4, 3, 512, 512), (224, 224), mode="bilinear"),
    "interpolate bilinear up": lambda: resize((4, 64, 32, 32), (64, 64), mode="bilinear"),
    "interpolate antialias": lambda: resize((4, 3, 512, 512), (224, 224), mode="bilinear", antialias=True),
    "interpolate bicubic": lambda: resize((4, 3, 512, 512), (224, 224), mode="bicubic"),
    "interpolate nearest": lambda: resize((4, 3, 512, 512), (224, 224), mode="nearest"),
    "interpolate nearest up": lambda: resize((4, 64, 32, 32), (64, 64), mode="nearest"),
    "roi_align": roi,
    "csr_matmul": csr,
    "unfold2d": lambda: ([numbers(8, 32, 64, 64)], lambda x: F.unfold(x, 3, padding=1)),
    "fold2d": lambda: ([numbers(8, 288, 4096)], lambda x: F.fold(x, 64, 3, padding=1)),
    "conv1d": lambda: ([numbers(16, 64, 1024), numbers(128, 64, 5)], lambda x, w: F.conv1d(x, w, padding=2)),
    "conv3d": lambda: ([numbers(2, 16, 16, 32, 32), numbers(32, 16, 3, 3, 3)],
                       lambda x, w: F.conv3d(x, w, padding=1)),
    "rms_norm": lambda: ([numbers(8, 128, 1024), numbers(1024)], lambda x, w: F.rms_norm(x, [1024], w, 1e-5)),
    "swiglu": lambda: ([numbers(8, 128, 1024), numbers(8, 128, 1024)], lambda a, b: F.silu(a) * b),
    "rotary_embedding": lambda: rotary(False),
    "rotary interleaved": lambda: rotary(True),
    "attention grouped": lambda: ([numbers(8, 16, 128, 64), numbers(8, 4, 128, 64), numbers(8, 4, 128, 64)],
                                  lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True,
                                                                                 enable_gqa=True)),
    "einsum": lambda: ([numbers(64, 128), numbers(128, 256), numbers(256, 32, 16)],
                       lambda a, b, c: torch.einsum("ab,bc,cde->ade", a, b, c)),
}


def measure(name, budget):
    inputs, compute = PROBLEMS[name]()
    result = {"op": name}
    dy = None
    for what in ("forward", "both"):
        seconds, cpu, begin = [], [], time.perf_counter()
        while len(seconds) < 5 or time.perf_counter() - begin < budget:
            given = [x if isinstance(x, torch.nn.Parameter) else x.detach().requires_grad_(what == "both") for x in inputs]
            start, cpu_start = time.perf_counter(), time.process_time()
            with torch.set_grad_enabled(what == "both"):
                y = compute(*given)
                if what == "both":
                    torch.autograd.grad(y, given, dy)
            seconds.append(time.perf_counter() - start)
            cpu.append(time.process_time() - cpu_start)
            dy = torch.rand_like(y).detach() if dy is None else dy
        result[what] = {"ms": statistics.median(seconds[2:]) * 1e3, "cpu_ms": statistics.median(cpu[2:]) * 1e3}
    return result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ops", nargs="+", default=list(PROBLEMS))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0.3)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    results = []
    for name in arguments.ops:
        try:
            results.append(measure(name, arguments.seconds))
        except ImportError as error:
            results.append({"op": name, "missing": str(error)})
    print(json.dumps(results))


if __name__ == "__main__":
    main()
