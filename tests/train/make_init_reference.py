#!/usr/bin/env python3
"""Writes tests/train/data/init.json: what torchvision's ResNet, Inception and ViT, timm's ViT, PyTorch Hub's U-Net and Hugging Face's ViT,
BERT and GPT-2 compute from weights that the test makes too, and the names and shapes of these weights.

Run by hand, with torch, torchvision and transformers installed:  python3 tests/train/make_init_reference.py
"""

import json
import pathlib
import tempfile

import numpy as np
import torch
import torchvision
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional as F
from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel, ViTConfig, ViTForImageClassification

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


def fill(state):
    """Fills tensors; gives names and shapes, in the order of the seeds."""
    shapes = []
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


def through_file(model):
    """Fills a model of Hugging Face's under the names that its file has, which can differ from those in memory."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        file = f"{folder}/model.safetensors"
        state = load_file(file)
        shapes = fill(state)
        save_file(state, file, metadata={"format": "pt"})
        return type(model).from_pretrained(folder).eval(), shapes


def picture(count, pixels):
    return torch.from_numpy(noise(count * 3 * pixels * pixels, 999).reshape(count, 3, pixels, pixels))


class TimmAttention(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        self.heads, self.qkv, self.proj = heads, nn.Linear(size, 3 * size), nn.Linear(size, size)

    def forward(self, x):
        n, t, d = x.shape
        q, k, v = self.qkv(x).reshape(n, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, t, d))


class TimmBlock(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(size, 1e-6), TimmAttention(size, heads)
        self.norm2, self.mlp = nn.LayerNorm(size, 1e-6), nn.Module()
        self.mlp.fc1, self.mlp.fc2 = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp.fc2(F.gelu(self.mlp.fc1(self.norm2(x))))


class TimmViT(nn.Module):
    """timm's vit_tiny_patch16, with its names of parameters."""

    def __init__(self, pixels, classes, size=192, heads=3):
        super().__init__()
        self.cls_token = nn.Parameter(torch.zeros(1, 1, size))
        self.pos_embed = nn.Parameter(torch.zeros(1, 1 + (pixels // 16) ** 2, size))
        self.patch_embed = nn.Module()
        self.patch_embed.proj = nn.Conv2d(3, size, 16, 16)
        self.blocks = nn.Sequential(*(TimmBlock(size, heads) for _ in range(12)))
        self.norm, self.head = nn.LayerNorm(size, 1e-6), nn.Linear(size, classes)

    def forward(self, x):
        x = self.patch_embed.proj(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], 1) + self.pos_embed
        return self.head(self.norm(self.blocks(x))[:, 0])


class UNet(nn.Module):
    """mateuszbuda/brain-segmentation-pytorch of PyTorch Hub, without the sigmoid at its end."""

    def __init__(self, channels, classes, features=32):
        super().__init__()
        inputs, width = channels, features
        for i in range(1, 5):
            setattr(self, f"encoder{i}", self.block(f"enc{i}", inputs, width))
            inputs, width = width, 2 * width
        self.bottleneck = self.block("bottleneck", inputs, width)
        for i in range(4, 0, -1):
            width //= 2
            setattr(self, f"upconv{i}", nn.ConvTranspose2d(2 * width, width, 2, 2))
            setattr(self, f"decoder{i}", self.block(f"dec{i}", 2 * width, width))
        self.conv = nn.Conv2d(features, classes, 1)

    @staticmethod
    def block(name, inputs, width):
        block = nn.Sequential()
        for i, channels in ((1, inputs), (2, width)):
            block.add_module(f"{name}conv{i}", nn.Conv2d(channels, width, 3, padding=1, bias=False))
            block.add_module(f"{name}norm{i}", nn.BatchNorm2d(width))
            block.add_module(f"{name}relu{i}", nn.ReLU())
        return block

    def forward(self, x):
        down = []
        for i in range(1, 5):
            down.append(getattr(self, f"encoder{i}")(x))
            x = F.max_pool2d(down[-1], 2)
        x = self.bottleneck(x)
        for i in range(4, 0, -1):
            x = torch.cat((getattr(self, f"upconv{i}")(x), down[i - 1]), 1)
            x = getattr(self, f"decoder{i}")(x)
        return self.conv(x)


def of_pictures(model, name, pixels, shapes=None):
    shapes = shapes or fill(model.eval().state_dict())
    output = model(picture(2, pixels))
    return {"model": name, "input": [3, pixels, pixels], "classes": 7, "pictures": 2, "tensors": shapes,
            "output": getattr(output, "logits", output).flatten().tolist()}


def inception():
    model = torchvision.models.inception_v3(init_weights=False, num_classes=7)
    shapes = fill(model.eval().state_dict())
    model.training = True  # the model itself, not its parts: the auxiliary head is computed, with running statistics
    output, auxiliary = model(picture(1, 299))
    return {"model": "inception_v3", "input": [3, 299, 299], "classes": 7, "pictures": 1, "tensors": shapes,
            "output": output.flatten().tolist(), "auxiliary": auxiliary.flatten().tolist()}


def tiny_vit_of_hugging_face():
    config = ViTConfig(hidden_size=192, num_hidden_layers=12, num_attention_heads=3, intermediate_size=768,
                       image_size=64, layer_norm_eps=1e-6, num_labels=7)
    model, shapes = through_file(ViTForImageClassification(config))
    return of_pictures(model, "vit-tiny", 64, shapes)


def of_text(model, name, shapes):
    tokens = torch.from_numpy(((noise(2 * 16, 999) + 1) * 127).astype(np.int64).reshape(2, 16))
    return {"model": name, "input": [16], "classes": 256, "tensors": shapes,
            "output": model(tokens).logits[:, -1].flatten().tolist()}


def bert():
    config = BertConfig(vocab_size=256, hidden_size=128, num_hidden_layers=2, num_attention_heads=2,
                        intermediate_size=512, max_position_embeddings=32)
    model, shapes = through_file(BertForMaskedLM(config))
    return of_text(model, "bert-tiny", shapes)


def gpt2():
    config = GPT2Config(vocab_size=256, n_positions=32, n_embd=48, n_layer=3, n_head=3)
    model = GPT2LMHeadModel(config).eval()
    return of_text(model, "gpt2-nano", fill(model.state_dict()))


with torch.no_grad():
    vit = torchvision.models.VisionTransformer(64, 16, num_layers=12, num_heads=3, hidden_dim=192, mlp_dim=768, num_classes=7)
    resnets = [of_pictures(getattr(torchvision.models, name)(num_classes=7), name, 64) for name in ("resnet18", "resnet34", "resnet50")]
    cases = [*resnets, inception(),
             of_pictures(vit, "vit-tiny", 64), of_pictures(TimmViT(64, 7), "vit-tiny", 64), of_pictures(UNet(3, 7), "unet-small", 16),
             tiny_vit_of_hugging_face(),
             bert(), gpt2()]
FOLDER.mkdir(exist_ok=True)
(FOLDER / "init.json").write_text(json.dumps(cases) + "\n")
