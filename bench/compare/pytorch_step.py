"""PyTorch's side of bench/compare/run: whole training steps of one model, as one line of JSON.

The peer of athanor_step.cpp: the same models, batches of the same shapes, SGD with momentum 0.9, loss read every step.
"""
import argparse
import json
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
parser.add_argument("--model", default="mlp", choices=["mlp", "cnn", "resnet18"])
parser.add_argument("--batch", type=int, default=128)
parser.add_argument("--steps", type=int, default=50)
parser.add_argument("--warmup", type=int, default=10)
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--compile", action="store_true")
arguments = parser.parse_args()

import torch  # noqa: E402  (after the arguments, so that --help is quick)
from torch import nn  # noqa: E402

torch.set_num_threads(arguments.threads)
torch.manual_seed(1)
baseline = memory_of_process("VmRSS")


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return torch.relu(y + (x if self.downsample is None else self.downsample(x)))


def resnet18():
    layers = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    width = 64
    for outputs in (64, 128, 256, 512):
        layers += [Block(width, outputs, 1 if outputs == 64 else 2), Block(outputs, outputs, 1)]
        width = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def cnn():
    return nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(64 * 7 * 7, 10))


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


model = {"mlp": mlp, "cnn": cnn, "resnet18": resnet18}[arguments.model]()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
shape = (3, 32, 32) if arguments.model == "resnet18" else (1, 28, 28)
batches = [(torch.randn(arguments.batch, *shape), torch.randint(0, 10, (arguments.batch,))) for _ in range(4)]
loss_of = nn.CrossEntropyLoss()


def forward(x, y):
    return loss_of(model(x), y)


if arguments.compile:
    forward = torch.compile(forward)

milliseconds = []
for step in range(-arguments.warmup, arguments.steps):
    x, y = batches[(step + arguments.warmup) % len(batches)]
    start = time.perf_counter()
    optimizer.zero_grad(set_to_none=True)
    loss = forward(x, y)
    loss.backward()
    optimizer.step()
    value = loss.item()
    if step >= 0:
        milliseconds.append((time.perf_counter() - start) * 1e3)

json.dump({"framework": f"pytorch {torch.__version__} {'compiled' if arguments.compile else 'eager'}",
           "model": arguments.model, "batch": arguments.batch, "step_ms": milliseconds,
           "step_ms_median": statistics.median(milliseconds), "last_loss": value,
           "peak_rss_bytes": memory_of_process("VmHWM"), "baseline_rss_bytes": baseline}, sys.stdout)
print()
