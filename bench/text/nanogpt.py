#!/usr/bin/env python3
"""PyTorch's side of bench/text/run: nanoGPT's architecture on the bytes of a text, with the options of Athanor's
gpt2-nano. Prints one line of JSON.

The architecture is that of https://github.com/karpathy/nanoGPT (model.py), written anew: pre-norm blocks, a fused
projection to queries, keys and values, GELU by tanh, the embedding again as the last layer, weights normal with 0.02 and,
where a residual branch ends, 0.02 / sqrt(2 layers).
"""

import argparse
import json
import math
import pathlib
import time

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, dimensions, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(dimensions), nn.LayerNorm(dimensions)
        self.c_attn, self.attn_proj = nn.Linear(dimensions, 3 * dimensions), nn.Linear(dimensions, dimensions)
        self.c_fc, self.mlp_proj = nn.Linear(dimensions, 4 * dimensions), nn.Linear(4 * dimensions, dimensions)

    def forward(self, x):
        n, t, d = x.shape
        q, k, v = (
            part.view(n, t, self.heads, d // self.heads).transpose(1, 2)
            for part in self.c_attn(self.ln_1(x)).split(d, dim=2)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attn_proj(mixed.transpose(1, 2).reshape(n, t, d))
        return x + self.mlp_proj(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class NanoGpt(nn.Module):
    def __init__(self, vocabulary, context, layers, dimensions, heads):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, dimensions), nn.Embedding(context, dimensions)
        self.h = nn.ModuleList(Block(dimensions, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(dimensions)
        for name, parameter in self.named_parameters():
            if parameter.dim() >= 2:
                last = name.endswith("proj.weight")
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * layers) if last else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.h:
            x = block(x)
        return F.linear(self.ln_f(x), self.wte.weight)


def loss_of(model, inputs, targets):
    return F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), ignore_index=-100)


@torch.no_grad()
def test_loss(model, text, context):
    """The mean over all bytes except the first, in successive windows."""
    total, count = 0.0, 0
    for start in range(0, len(text) - 1, context):
        window = text[start : start + context + 1]
        total += loss_of(model, window[None, :-1], window[None, 1:]).item() * (len(window) - 1)
        count += len(window) - 1
    return total / count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="/usr/share/common-licenses/GPL-3")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--context", type=int, default=128)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    torch.set_num_threads(options.threads)
    text = torch.tensor(list(pathlib.Path(options.data).read_bytes()))
    cut = int(len(text) * 0.9)
    train, test = text[:cut], text[cut:]
    model = NanoGpt(256, options.context, layers=3, dimensions=48, heads=3)
    weights = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": weights, "weight_decay": 0.1}, {"params": others, "weight_decay": 0}]
    optimizer = torch.optim.AdamW(groups, lr=options.lr)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, options.lr, total_steps=options.steps, cycle_momentum=False
    )
    seconds, losses = [], []
    for _ in range(options.steps):
        begin = time.perf_counter()
        starts = torch.randint(len(train) - options.context, (options.batch,))
        inputs = torch.stack([train[s : s + options.context] for s in starts])
        targets = torch.stack([train[s + 1 : s + 1 + options.context] for s in starts])
        loss = loss_of(model, inputs, targets)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        schedule.step()
        seconds.append(time.perf_counter() - begin)
    value = test_loss(model, test, options.context)
    result = {
        "parameters": sum(p.numel() for p in model.parameters()),
        "steps": options.steps,
        "train_loss": sum(losses[-100:]) / len(losses[-100:]),
        "test_loss": value,
        "bits_per_byte": value / math.log(2),
        "step_ms_median": 1e3 * sorted(seconds)[len(seconds) // 2],
        "seconds": sum(seconds),
    }
    print(json.dumps(result))


main()
