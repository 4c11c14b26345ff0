#!/usr/bin/env python3
"""Writes tests/nn/data/*.safetensors: what PyTorch computes, for the tests of nn and optim.

Run by hand, with torch and safetensors installed:  python3 tests/nn/make_reference.py
"""

import itertools
import pathlib

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

from torch_resnet import BasicBlock, Bottleneck

FOLDER = pathlib.Path(__file__).parent / "data"


def save(name, tensors):
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{name}.safetensors"
    save_file({k: v.detach().clone().contiguous() for k, v in tensors.items()}, path)
    path.chmod(0o644)


# ---- Optimizers: parameters a [3, 4] and b [5], given gradients, a rate that changes, ten steps ----

OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "sgd_decay": lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.05),
    "sgd_momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "sgd_dampened": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.8, dampening=0.3, weight_decay=0.05),
    "sgd_nesterov": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.05),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "adam_decay": lambda p: torch.optim.Adam(p, lr=0.01, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
    "adamw_decay": lambda p: torch.optim.AdamW(p, lr=0.01, betas=(0.8, 0.95), weight_decay=0.3),
}
STEPS = 10


def optimizers():
    out = {"start.a": torch.randn(3, 4), "start.b": torch.randn(5)}
    for step in range(STEPS):
        out[f"grad.{step}.a"] = torch.randn(3, 4)
        out[f"grad.{step}.b"] = torch.randn(5)
    for name, make in OPTIMIZERS.items():
        a, b = (nn.Parameter(out[f"start.{k}"].clone()) for k in "ab")
        optimizer = make([a, b])
        rate = optimizer.param_groups[0]["lr"]
        for step in range(STEPS):
            optimizer.param_groups[0]["lr"] = rate * (1 - 0.05 * step)
            a.grad, b.grad = out[f"grad.{step}.a"].clone(), out[f"grad.{step}.b"].clone()
            optimizer.step()
            out[f"{name}.{step}.a"], out[f"{name}.{step}.b"] = a.detach().clone(), b.detach().clone()
        for key, value in optimizer.state[a].items():
            if key != "step" and value is not None:
                out[f"{name}.state.{key}"] = value
    # Clipping of a gradient above the limit, and of one below
    for name, limit in {"above": 1.5, "below": 100.0}.items():
        a, b = nn.Parameter(torch.zeros(3, 4)), nn.Parameter(torch.zeros(5))
        a.grad, b.grad = out["grad.0.a"].clone(), out["grad.0.b"].clone()
        out[f"clip.{name}.norm"] = nn.utils.clip_grad_norm_([a, b], limit)
        out[f"clip.{name}.a"], out[f"clip.{name}.b"] = a.grad, b.grad
    a = nn.Parameter(torch.zeros(3, 4))
    a.grad = out["grad.0.a"].clone()
    nn.utils.clip_grad_value_([a], 0.5)
    out["clip.value.a"] = a.grad
    save("optim", out)


# ---- Schedules: the rates of 40 steps, from 0.5 ----


def warm_cosine(optimizer):
    s = torch.optim.lr_scheduler
    return s.SequentialLR(
        optimizer, [s.LinearLR(optimizer, 0.1, 1.0, 8), s.CosineAnnealingLR(optimizer, 32)], milestones=[8])


SCHEDULES = {
    "step": lambda o: torch.optim.lr_scheduler.StepLR(o, 7, 0.3),
    "multi_step": lambda o: torch.optim.lr_scheduler.MultiStepLR(o, [5, 12, 30], 0.2),
    "cosine": lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 40, 0.01),
    "one_cycle": lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.5, total_steps=40),
    "one_cycle_linear": lambda o: torch.optim.lr_scheduler.OneCycleLR(
        o, 0.5, total_steps=40, pct_start=0.25, anneal_strategy="linear", div_factor=10, final_div_factor=100),
    "warm_cosine": warm_cosine,
}


def schedules():
    out = {}
    for name, make in SCHEDULES.items():
        optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.5)
        scheduler = make(optimizer)
        rates = []
        for _ in range(40):
            rates.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            scheduler.step()
        out[name] = torch.tensor(rates, dtype=torch.float64)
    save("schedules", out)


# ---- Layers and models: parameters, inputs, outputs, gradients of sum(y * weights), buffers ----


class SelfAttention(nn.Module):
    """MultiheadAttention of x with itself; with a causal mask."""

    def __init__(self, dimensions, heads, causal):
        super().__init__()
        self.inner = nn.MultiheadAttention(dimensions, heads, batch_first=True)
        self.causal = causal

    def forward(self, x):
        t = x.shape[1]
        mask = torch.triu(torch.ones(t, t, dtype=torch.bool), 1) if self.causal else None
        return self.inner(x, x, x, attn_mask=mask, need_weights=False)[0]


class SwiGLU(nn.Module):
    def __init__(self, dimensions, hidden):
        super().__init__()
        self.gate_proj = nn.Linear(dimensions, hidden, bias=False)
        self.up_proj = nn.Linear(dimensions, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, dimensions, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class States(nn.Module):
    """The states of a recurrent layer at every time."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x)[0]


class GroupedAttention(nn.Module):
    """Causal attention within a window, with fewer heads of keys than of queries, and rotary positions."""

    def __init__(self, dimensions, heads, kv_heads, window):
        super().__init__()
        self.heads, self.kv_heads, self.window, self.each = heads, kv_heads, window, dimensions // heads
        rows = dimensions + 2 * kv_heads * self.each
        self.in_proj_weight = nn.Parameter(torch.empty(rows, dimensions))
        self.in_proj_bias = nn.Parameter(torch.empty(rows))
        self.out_proj = nn.Linear(dimensions, dimensions)

    def turned(self, x):
        t, d = x.shape[-2:]
        angle = torch.arange(t)[:, None] * 10000 ** (-torch.arange(0, d, 2) / d)
        first, second = x.chunk(2, -1)
        return torch.cat([first * angle.cos() - second * angle.sin(), second * angle.cos() + first * angle.sin()], -1)

    def forward(self, x):
        n, t, d = x.shape
        keys = self.kv_heads * self.each
        q, k, v = (p.unflatten(2, (-1, self.each)).transpose(1, 2)
                   for p in F.linear(x, self.in_proj_weight, self.in_proj_bias).split([d, keys, keys], 2))
        distance = torch.arange(t)[:, None] - torch.arange(t)
        seen = (distance >= 0) & (distance < self.window)
        mixed = F.scaled_dot_product_attention(self.turned(q), self.turned(k), v, attn_mask=seen, enable_gqa=True)
        return self.out_proj(mixed.transpose(1, 2).reshape(n, t, d))


class Conv1D(nn.Module):
    """A linear layer with its weight transposed, as in the published GPT-2."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.empty(outputs))

    def forward(self, x):
        return x @ self.weight + self.bias


class Gpt2Attention(nn.Module):
    def __init__(self, dimensions, heads):
        super().__init__()
        self.heads = heads
        self.c_attn = Conv1D(dimensions, 3 * dimensions)
        self.c_proj = Conv1D(dimensions, dimensions)

    def forward(self, x):
        n, t, d = x.shape
        q, k, v = (part.view(n, t, self.heads, -1).transpose(1, 2) for part in self.c_attn(x).split(d, 2))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(mixed.transpose(1, 2).reshape(n, t, d))


class Gpt2Block(nn.Module):
    def __init__(self, dimensions, heads):
        super().__init__()
        self.ln_1 = nn.LayerNorm(dimensions)
        self.attn = Gpt2Attention(dimensions, heads)
        self.ln_2 = nn.LayerNorm(dimensions)
        self.mlp = nn.ModuleDict({"c_fc": Conv1D(dimensions, 4 * dimensions), "c_proj": Conv1D(4 * dimensions, dimensions)})

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp["c_proj"](F.gelu(self.mlp["c_fc"](self.ln_2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, vocabulary, positions, layers, dimensions, heads):
        super().__init__()
        self.wte = nn.Embedding(vocabulary, dimensions)
        self.wpe = nn.Embedding(positions, dimensions)
        self.h = nn.Sequential(*[Gpt2Block(dimensions, heads) for _ in range(layers)])
        self.ln_f = nn.LayerNorm(dimensions)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        return self.ln_f(self.h(x)) @ self.wte.weight.T


def randomize(module):
    """Norm layers start as the identity, which would hide mistakes."""
    for parameter in module.parameters():
        nn.init.normal_(parameter, 0.1, 0.4)


def layers():
    out = {}
    cases = {
        "linear": (nn.Linear(5, 4), torch.randn(3, 2, 5)),
        "conv": (nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2), torch.randn(2, 4, 7, 6)),
        "conv_dilated": (nn.Conv2d(2, 3, (2, 3), padding=(1, 2), dilation=2), torch.randn(2, 2, 6, 7)),
        "conv_transpose": (
            nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2), torch.randn(2, 4, 4, 3)),
        "batch_norm1d": (nn.BatchNorm1d(4), torch.randn(6, 4)),
        "batch_norm2d": (nn.BatchNorm2d(3, eps=1e-3, momentum=0.3), torch.randn(4, 3, 3, 2) * 2 + 1),
        "batch_norm_average": (nn.BatchNorm2d(3, momentum=None), torch.randn(4, 3, 3, 2) * 2 + 1),
        "layer_norm": (nn.LayerNorm([3, 4]), torch.randn(2, 3, 4)),
        "group_norm": (nn.GroupNorm(2, 6), torch.randn(2, 6, 3, 2)),
        "attention": (SelfAttention(6, 2, False), torch.randn(2, 4, 6)),
        "attention_causal": (SelfAttention(6, 3, True), torch.randn(2, 4, 6)),
        "block": (BasicBlock(4, 6, 2), torch.randn(3, 4, 6, 6)),
        "block_straight": (BasicBlock(3, 3, 1), torch.randn(3, 3, 4, 4)),
        "bottleneck": (Bottleneck(4, 2, 2), torch.randn(3, 4, 6, 6)),
        "bottleneck_straight": (Bottleneck(8, 2, 1), torch.randn(3, 8, 4, 4)),
        "cnn": (nn.Sequential(
            nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(4, 6, 3, padding=1), nn.GELU(), nn.AvgPool2d(2),
            nn.Flatten(), nn.Linear(24, 5)), torch.randn(4, 2, 8, 8)),
    }
    record(out, cases)
    with torch.random.fork_rng():  # so that new layers do not change the numbers of later ones
        torch.manual_seed(1)
        record(out, {
            "rms_norm": (nn.RMSNorm(5, eps=1e-6), torch.randn(2, 3, 5)),
            "conv1d": (nn.Conv1d(4, 6, 3, stride=2, padding=1, dilation=2, groups=2), torch.randn(2, 4, 9)),
            "conv3d": (nn.Conv3d(2, 3, (2, 3, 1), stride=(1, 2, 1), padding=(1, 0, 1)), torch.randn(2, 2, 3, 5, 4)),
            "upsample": (nn.Upsample(scale_factor=(2, 3), mode="bilinear"), torch.randn(2, 3, 3, 4)),
            "swiglu": (SwiGLU(4, 6), torch.randn(2, 3, 4)),
            "lstm": (States(nn.LSTM(3, 4, batch_first=True)), torch.randn(2, 5, 3)),
            "lstm_deep": (States(nn.LSTM(3, 4, num_layers=2, bidirectional=True, bias=False, batch_first=True)), torch.randn(3, 4, 3)),
            "gru": (States(nn.GRU(3, 4, batch_first=True)), torch.randn(2, 5, 3)),
            "gru_deep": (States(nn.GRU(3, 4, num_layers=2, bidirectional=True, batch_first=True)), torch.randn(3, 4, 3)),
            "attention_grouped": (GroupedAttention(8, 4, 2, 3), torch.randn(2, 6, 8)),
        })
    integers(out)


def record(out, cases):
    for name, (module, x) in cases.items():
        randomize(module)
        x.requires_grad_()
        for key, value in module.named_parameters():
            out[f"{name}/param/{key.removeprefix('inner.')}"] = value.detach().clone()
        y = module(x)
        weights = torch.randn_like(y)
        (y * weights).sum().backward()
        out |= {f"{name}/x": x, f"{name}/y": y, f"{name}/weights": weights, f"{name}/grad_x": x.grad}
        for key, value in module.named_parameters():
            out[f"{name}/grad/{key.removeprefix('inner.')}"] = value.grad
        module(x.detach() + 1)  # running statistics after two batches
        for key, value in module.named_buffers():
            out[f"{name}/buffer/{key}"] = value
        if list(module.buffers()):
            out[f"{name}/eval"] = module.eval()(x)


def integers(out):
    cases = {
        "embedding": (nn.Embedding(7, 3), torch.tensor([[1, 6, 1], [0, 2, 6]])),
        "gpt2": (Gpt2(11, 8, 2, 6, 2), torch.randint(0, 11, (3, 7))),
    }
    for name, (module, x) in cases.items():
        randomize(module)
        y = module(x)
        weights = torch.randn_like(y)
        (y * weights).sum().backward()
        out |= {f"{name}/x": x, f"{name}/y": y, f"{name}/weights": weights}
        for key, value in module.named_parameters():
            out |= {f"{name}/param/{key}": value, f"{name}/grad/{key}": value.grad}
    save("layers", out)


# ---- Training: a small classifier, losses and final parameters of eight steps ----


def training():
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.BatchNorm1d(8), nn.Linear(8, 3))
    out = {f"start/{k}": v.clone() for k, v in model.state_dict().items()}
    x, labels = torch.randn(16, 6), torch.randint(0, 3, (16,))
    out |= {"x": x, "labels": labels}
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.05)
    losses = []
    for _ in range(8):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), labels, label_smoothing=0.1)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        losses.append(loss.item())
    out["losses"] = torch.tensor(losses, dtype=torch.float64)
    out |= {f"end/{k}": v for k, v in model.state_dict().items()}
    save("training", out)


# ---- Loss scaling: two parameters, given gradients of which some overflow, scales and skipped updates ----

SCALED = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.2),
    "adam": lambda p: torch.optim.Adam(p, lr=0.05),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.05, betas=(0.8, 0.99), weight_decay=0.1),
}
OVERFLOWS = {0: float("inf"), 1: float("nan"), 6: float("-inf"), 12: float("nan")}


def scaling():
    out = {"start.a": torch.randn(3, 4), "start.b": torch.randn(5)}
    for step in range(14):
        out[f"grad.{step}.a"], out[f"grad.{step}.b"] = torch.randn(3, 4), torch.randn(5)
        if step in OVERFLOWS:
            out[f"grad.{step}.{'ab'[step % 2]}"].view(-1)[step % 5] = OVERFLOWS[step]
    for name, make in SCALED.items():
        a, b = (nn.Parameter(out[f"start.{k}"].clone()) for k in "ab")
        optimizer = make([a, b])
        scaler = torch.amp.GradScaler("cpu", init_scale=1024, growth_factor=4, backoff_factor=0.25, growth_interval=3)
        for step in range(14):
            optimizer.zero_grad()
            loss = (a * out[f"grad.{step}.a"]).sum() + (b * out[f"grad.{step}.b"]).sum()
            scaler.scale(loss).backward()
            if name == "adamw":
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_([a, b], 1.5)
            scaler.step(optimizer)
            scaler.update()
            out[f"{name}.{step}.a"], out[f"{name}.{step}.b"] = a.detach().clone(), b.detach().clone()
            out[f"{name}.{step}.scale"] = torch.tensor(scaler.get_scale())
            out[f"{name}.{step}.tracker"] = torch.tensor(scaler._get_growth_tracker())
    save("scaling", out)


# ---- Parameters whose first gradients come late: b has none in some steps; with a scaler, some steps are skipped ----

WITHOUT_B, SKIPPED = {0, 1, 4}, {0, 2, 5}  # so b's first gradient, of step 2, is skipped too
LATE = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.8, dampening=0.3, weight_decay=0.05),
    "adam": lambda p: torch.optim.Adam(p, lr=0.1, betas=(0.8, 0.95), weight_decay=0.05),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.1, betas=(0.8, 0.95), weight_decay=0.05),
}


def late():
    out = {"start.a": torch.randn(3, 4), "start.b": torch.randn(5)}
    for step in range(STEPS):
        out[f"grad.{step}.a"] = torch.randn(3, 4)
        if step not in WITHOUT_B:
            out[f"grad.{step}.b"] = torch.randn(5)
    for name, scaled in itertools.product(LATE, [False, True]):
        a, b = (nn.Parameter(out[f"start.{k}"].clone()) for k in "ab")
        optimizer = LATE[name]([a, b])
        scaler = torch.amp.GradScaler("cpu", init_scale=1024, enabled=scaled)
        for step in range(STEPS):
            optimizer.zero_grad()
            loss = (a * out[f"grad.{step}.a"]).sum()
            if step not in WITHOUT_B:
                loss = loss + (b * out[f"grad.{step}.b"]).sum()
            if scaled and step in SKIPPED:
                loss = loss * float("inf")
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            at = f"{name}.{'scaled' if scaled else 'plain'}.{step}"
            out[f"{at}.a"], out[f"{at}.b"] = a.detach().clone(), b.detach().clone()
    save("late", out)


torch.manual_seed(0)
optimizers()
schedules()
layers()
training()
scaling()
late()
