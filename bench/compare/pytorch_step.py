"""PyTorch's side of bench/compare/run: whole training steps of one model, as one line of JSON.

The peer of athanor_step.cpp: the same models, batches of the same shapes, SGD with momentum 0.9, loss read every step.
"""
import argparse
import json
import pathlib
import statistics
import sys
import time


def memory_of_process(name):
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
    return 0


parser = argparse.ArgumentParser()
parser.add_argument("--model", default="mlp", choices=["mlp", "cnn", "resnet18", "resnet34", "resnet50", "transformer", "gpt2-small",
                                                            "bert-small", "bert-base"])
parser.add_argument("--batch", type=int, default=128)
parser.add_argument("--steps", type=int, default=50)
parser.add_argument("--warmup", type=int, default=10)
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--compile", action="store_true")
parser.add_argument("--checkpoint", action="store_true", help="compute what is inside of blocks again (torch.utils.checkpoint)")
parser.add_argument("--device", default="cpu", help="as Athanor's: cpu, cuda:0, hip:0 (which PyTorch calls cuda)")
parser.add_argument("--precision", default="f32", choices=["f32", "tf32", "bf16", "f16"], help="by autocast")
arguments = parser.parse_args()

import torch  # noqa: E402  (after the arguments, so that --help is quick)
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "nn"))
from torch_resnet import BasicBlock, Bottleneck  # noqa: E402

torch.set_num_threads(arguments.threads)
torch.set_float32_matmul_precision("high" if arguments.precision == "tf32" else "highest")
torch.backends.cudnn.allow_tf32 = arguments.precision == "tf32"
device = torch.device(arguments.device.replace("hip", "cuda"))
on_gpu = device.type == "cuda"
torch.manual_seed(1)
baseline = memory_of_process("VmRSS")


class TransformerBlock(nn.Module):
    """A block as in GPT-2."""

    def __init__(self, dimensions, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(dimensions), nn.LayerNorm(dimensions)
        self.qkv, self.projection = nn.Linear(dimensions, 3 * dimensions), nn.Linear(dimensions, dimensions)
        self.up, self.down = nn.Linear(dimensions, 4 * dimensions), nn.Linear(4 * dimensions, dimensions)

    def forward(self, x):
        n, t, d = x.shape
        q, k, v = (part.view(n, t, self.heads, -1).transpose(1, 2) for part in self.qkv(self.ln_1(x)).split(d, 2))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(mixed.transpose(1, 2).reshape(n, t, d))
        return x + self.down(nn.functional.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, vocabulary, positions, layers, dimensions, heads):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, dimensions), nn.Embedding(positions, dimensions)
        self.blocks = nn.Sequential(*[TransformerBlock(dimensions, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(dimensions)
        self.apply(self.shrink)

    @staticmethod
    def shrink(module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        return self.norm(self.blocks(x)) @ self.tokens.weight.T


class BertBlock(nn.Module):
    """A block as in BERT: norms come after the sums."""

    def __init__(self, dimensions, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.projection = (nn.Linear(dimensions, dimensions) for _ in range(4))
        self.up, self.down = nn.Linear(dimensions, 4 * dimensions), nn.Linear(4 * dimensions, dimensions)
        self.norm_1, self.norm_2 = nn.LayerNorm(dimensions, 1e-12), nn.LayerNorm(dimensions, 1e-12)

    def forward(self, x):
        n, t, d = x.shape
        q, k, v = (part(x).view(n, t, self.heads, -1).transpose(1, 2) for part in (self.query, self.key, self.value))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v)
        x = self.norm_1(x + self.projection(mixed.transpose(1, 2).reshape(n, t, d)))
        return self.norm_2(x + self.down(nn.functional.gelu(self.up(x))))


class Bert(nn.Module):
    """BERT with the head that predicts the token at each position."""

    def __init__(self, vocabulary, positions, layers, dimensions, heads):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, dimensions), nn.Embedding(positions, dimensions)
        self.sentences, self.norm = nn.Embedding(2, dimensions), nn.LayerNorm(dimensions, 1e-12)
        self.blocks = nn.Sequential(*[BertBlock(dimensions, heads) for _ in range(layers)])
        self.head, self.head_norm = nn.Linear(dimensions, dimensions), nn.LayerNorm(dimensions, 1e-12)
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        self.apply(Gpt2.shrink)

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.blocks(self.norm(self.tokens(tokens) + self.positions(places) + self.sentences.weight[0]))
        return self.head_norm(nn.functional.gelu(self.head(x))) @ self.tokens.weight.T + self.bias


def resnet50():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for width, count in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(count):
            layers.append(Bottleneck(inputs, width, 2 if block == 0 and width > 64 else 1))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


def small_resnet(counts=(2, 2, 2, 2)):
    layers = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    width = 64
    for outputs, count in zip((64, 128, 256, 512), counts):
        for block in range(count):
            layers.append(BasicBlock(width, outputs, 2 if block == 0 and outputs > 64 else 1))
            width = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def cnn():
    return nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(64 * 7 * 7, 10))


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


PICTURES = {"mlp": (mlp, (1, 28, 28), 10), "cnn": (cnn, (1, 28, 28), 10), "resnet18": (small_resnet, (3, 32, 32), 10),
            "resnet34": (lambda: small_resnet((3, 4, 6, 3)), (3, 32, 32), 10),
            "resnet50": (resnet50, (3, 224, 224), 1000)}
TEXTS = {"transformer": (Gpt2, 128, (256, 128, 6, 256, 4)), "gpt2-small": (Gpt2, 1024, (50257, 1024, 12, 768, 12)),
         "bert-small": (Bert, 128, (30522, 512, 4, 512, 8)), "bert-base": (Bert, 128, (30522, 512, 12, 768, 12))}


def workload():
    """The model, and four batches of inputs and labels."""
    count = arguments.batch
    if arguments.model in TEXTS:
        make, length, options = TEXTS[arguments.model]
        return make(*options), [tuple(torch.randint(0, options[0], (2, count, length))) for _ in range(4)]
    make, shape, classes = PICTURES[arguments.model]
    return make(), [(torch.randn(count, *shape), torch.randint(0, classes, (count,))) for _ in range(4)]


class Checkpointed(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, x):
        return checkpoint(self.block, x, use_reentrant=False)


model, batches = workload()
if arguments.checkpoint:
    blocks = model.blocks if arguments.model in TEXTS else model
    for i, block in enumerate(blocks):
        if isinstance(block, (BasicBlock, Bottleneck, TransformerBlock, BertBlock)):
            blocks[i] = Checkpointed(block)
model.to(device)
if on_gpu:
    model.to(memory_format=torch.channels_last)
    batches = [tuple(tensor.to(device) for tensor in batch) for batch in batches]
low = {"bf16": torch.bfloat16, "f16": torch.float16}.get(arguments.precision)
scaler = torch.amp.GradScaler(device.type, enabled=arguments.precision == "f16")
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


def forward(x, y):
    with torch.autocast(device.type, low, enabled=low is not None):
        if on_gpu and x.dim() == 4:
            x = x.to(memory_format=torch.channels_last)
        logits = model(x)
        return nn.functional.cross_entropy(logits.view(-1, logits.shape[-1]), y.reshape(-1))


if arguments.compile:
    forward = torch.compile(forward)

milliseconds = []
for step in range(-arguments.warmup, arguments.steps):
    x, y = batches[(step + arguments.warmup) % len(batches)]
    start = time.perf_counter()
    optimizer.zero_grad(set_to_none=True)
    loss = forward(x, y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    value = loss.item()
    if step >= 0:
        milliseconds.append((time.perf_counter() - start) * 1e3)

json.dump({"framework": f"pytorch {torch.__version__} {'compiled' if arguments.compile else 'eager'}",
           "model": arguments.model, "batch": arguments.batch, "step_ms": milliseconds,
           "parameters": sum(parameter.numel() for parameter in model.parameters()),
           "step_ms_median": statistics.median(milliseconds), "last_loss": value,
           "peak_device_bytes": torch.cuda.max_memory_allocated() if on_gpu else 0,
           "peak_rss_bytes": memory_of_process("VmHWM"), "baseline_rss_bytes": baseline}, sys.stdout)
print()
