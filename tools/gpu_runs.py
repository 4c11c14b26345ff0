"""Common to tools/train-on-gpu and tools/inject-gpu-faults: data of noise, runs of `athanor train` on it, and tests."""
import json
import os
import pathlib
import struct
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "build" / "release" / "athanor"


def write_data(folder, size):
    """Pictures of size x size as IDX files, the same each time."""
    def idx(name, extents, data):
        header = struct.pack(">HBB", 0, 8, len(extents)) + struct.pack(f">{len(extents)}I", *extents)
        (folder / name).write_bytes(header + bytes(data))
    folder.mkdir()
    for part, count in (("train", 32), ("t10k", 8)):
        idx(f"{part}-images-idx3-ubyte", (count, size, size), ((i * i * 31 + i * 7) % 251 for i in range(count * size * size)))
        idx(f"{part}-labels-idx1-ubyte", (count,), (i % 10 for i in range(count)))


def command(data, out, device, model, batch, steps, *extra, tuned=False):
    choice = ["--tune", "full"] if tuned else ["--deterministic"]
    return [PROGRAM, "train", "--model", model, "--data", data, "--batch-size", str(batch), "--max-steps", str(steps),
            "--checkpoint-every", "1", "--eval-examples", "4", "--trust", "--quiet", "--device", device, "--out", out,
            *choice, *extra]


def losses(out):
    """The losses that a run has written so far."""
    metrics = out / "metrics.jsonl"
    rows = [json.loads(line) for line in metrics.read_text().splitlines()] if metrics.exists() else []
    return [row["loss"] for row in rows if "loss" in row]


def train(line, timeout, environment=None):
    """Exit status (None: it hung) and messages of the run."""
    try:
        run = subprocess.run(line, capture_output=True, text=True, timeout=timeout, errors="replace",
                             env={**os.environ, **(environment or {})})
    except subprocess.TimeoutExpired:
        return None, ""
    return run.returncode, run.stderr


def run_test(program, name, timeout, environment=None):
    """Exit status (None: it hung) and output of one test of the library."""
    try:
        run = subprocess.run([PROGRAM.parent / "tests" / program, f"--gtest_filter={name}"], capture_output=True, text=True,
                             timeout=timeout, errors="replace", env={**os.environ, **(environment or {})})
    except subprocess.TimeoutExpired:
        return None, ""
    return run.returncode, run.stdout + run.stderr
