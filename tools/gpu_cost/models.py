"""The kernels of a model's training step, as `athanor kernels dump` writes them."""
import subprocess
import sys

from .compilers import ROOT

PROGRAM = ROOT / "build" / "release" / "athanor"


def model_options(model):
    """Options of `athanor kernels dump` for NAME[:PRECISION[:BATCH[:CLASSES]]]. Throws ValueError for another text."""
    name, *rest = model.split(":")
    if not name or len(rest) > 3 or any(one and not one.isdecimal() for one in rest[1:]):
        raise ValueError(f"'{model}' is not NAME[:PRECISION[:BATCH[:CLASSES]]], such as gpt2-small:bf16:8:50257")
    given = zip(("--precision", "--batch-size", "--classes"), rest)
    return ["--model", name, *(word for option, value in given if value for word in (option, value))]


def dump(model, chip, folder):
    """Writes the kernels. Exits with the program's message if it refuses the model."""
    run = subprocess.run([PROGRAM, "kernels", "dump", *model_options(model), "--arch", chip, "--out", folder],
                         capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"check-gpu-kernels: {model} for {chip}: {run.stderr.strip()}")
