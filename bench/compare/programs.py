"""Common to the comparisons: the programs that they run, each in a fresh process."""
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PYTORCH = ROOT / "bench" / "compare" / "pytorch_step.py"


def athanor_step():
    program = ROOT / "build" / "release" / "bench" / "compare_step"
    if not program.exists():
        sys.exit("build/release/bench/compare_step is missing: cmake --preset release && cmake --build --preset release")
    return str(program)


def environment_of(threads):
    """Kernels are chosen before anything is measured, and remembered in a separate cache."""
    return {**os.environ, "OMP_NUM_THREADS": str(threads), "ATHANOR_CACHE": str(ROOT / "build" / "compare-cache")}


# The versions that docs/performance.md compares with.
PACKAGES = ["torch==2.15.0", "numpy==2.4.6"]


def python_with_torch():
    given = os.environ.get("ATHANOR_COMPARE_PYTHON")
    if given:
        return given
    folder = ROOT / "build" / "compare-venv"
    python = folder / "bin" / "python"
    if subprocess.run([python, "-c", "import torch, numpy"], capture_output=True).returncode if python.exists() else True:
        print(f"Installing PyTorch into {folder.relative_to(ROOT)} (once; some gigabytes, minutes) ...", flush=True)
        made = subprocess.run([sys.executable, "-m", "venv", folder])
        if made.returncode:
            sys.exit("No virtual environment could be made: install python3-venv, or set ATHANOR_COMPARE_PYTHON.")
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
    return str(python)


def measure(command, environment, optional=False):
    """The JSON of the last line; None if an optional command fails."""
    run = subprocess.run(command, capture_output=True, text=True, env=environment)
    if run.returncode == 0:
        return json.loads(run.stdout.strip().splitlines()[-1])
    message = f"{' '.join(map(str, command))} failed ({run.returncode}):\n{run.stderr}"
    if not optional:
        sys.exit(message)
    print(message, file=sys.stderr)
    return None
