#!/usr/bin/env python3
"""Writes tests/train/data/init.json: what torchvision's ResNet and Hugging Face's GPT-2 compute from weights that
the test makes too, and the names and shapes of these weights.

Run by hand, with torch, torchvision and transformers installed:  python3 tests/train/make_init_reference.py
"""

import json
import pathlib

import numpy as np
import torch
import torchvision
from transformers import GPT2Config, GPT2LMHeadModel

FOLDER = pathlib.Path(__file__).parent / "data"


def noise(count, seed):
    """Numbers from -1 to 1: MurmurHash3's finalizer of the index."""
    x = (np.arange(1, count + 1, dtype=np.uint64) * 0x9E3779B9 + seed * 0x85EBCA6B) & 0xFFFFFFFF
    x ^= x >> np.uint64(16)
    x = (x * 0x85EBCA6B) & 0xFFFFFFFF
    x ^= x >> np.uint64(13)
    x = (x * 0xC2B2AE35) & 0xFFFFFFFF
    x ^= x >> np.uint64(16)
    return (x / 2**31 - 1).astype(np.float32)


def fill(model):
    """The names and shapes, in the order of the seeds."""
    shapes = []
    state = model.state_dict()
    for seed, name in enumerate(sorted(state)):
        tensor = state[name]
        if tensor.dtype != torch.float32 or name == "lm_head.weight":
            continue
        values = noise(tensor.numel(), seed).reshape(tuple(tensor.shape))
        if name.endswith("running_var"):
            values = 1 + values / 2
        elif tensor.dim() == 1:
            values = 0.5 + values / 2
        else:
            values = values * np.float32(np.sqrt(3 / (tensor.numel() / tensor.shape[0])))
        tensor.copy_(torch.from_numpy(values.astype(np.float32)))
        shapes.append([name, list(tensor.shape), seed])
    return shapes


def resnet(make, name, pixels):
    model = make(num_classes=7).eval()
    shapes = fill(model)
    picture = torch.from_numpy(noise(2 * 3 * pixels * pixels, 999).reshape(2, 3, pixels, pixels))
    return {"model": name, "input": [3, pixels, pixels], "classes": 7, "tensors": shapes,
            "output": model(picture).flatten().tolist()}


def gpt2():
    config = GPT2Config(vocab_size=256, n_positions=32, n_embd=48, n_layer=3, n_head=3)
    model = GPT2LMHeadModel(config).eval()
    shapes = fill(model)
    tokens = torch.from_numpy(((noise(2 * 16, 999) + 1) * 127).astype(np.int64).reshape(2, 16))
    return {"model": "gpt2-nano", "input": [16], "classes": 256, "tensors": shapes,
            "output": model(tokens).logits[:, -1].flatten().tolist()}


with torch.no_grad():
    cases = [resnet(torchvision.models.resnet18, "resnet18", 64), gpt2()]
FOLDER.mkdir(exist_ok=True)
(FOLDER / "init.json").write_text(json.dumps(cases) + "\n")
