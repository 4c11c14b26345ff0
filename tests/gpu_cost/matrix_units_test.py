#!/usr/bin/env python3
"""Plans of f16 and bf16 multiply by matrix units: looks for their instructions in the machine code (NVIDIA: PTX) of the products,
attentions and convolutions of the training steps of GPT-2 nano and ResNet-18, which must have them, and not in those of the f32
plan. No chip is needed; build/release must be built. Exits with 77 if no compiler is here.

    tests/gpu_cost/matrix_units_test.py [--all] [CHIP ...]

Without --all, each chip has one of f16 and bf16, ResNet-18 is for three chips, and f32 for these and GPT-2 nano.
"""
import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys
import tempfile

if sys.version_info < (3, 11):
    print("matrix_units: needs Python 3.11: skipped")
    sys.exit(77)

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE.parent.parent / "tools"))

from gpu_cost.compilers import ROOT, clang_for, nvrtc  # noqa: E402

PROGRAM = ROOT / "build" / "release" / "athanor"
CONTRACTIONS = re.compile(r"batch_matmul|attention|conv2d")
MMA = r"\bmma\.sync\.aligned\.m16n8k16\.row\.col\.f32\.{0}\.{0}\.f32\b"
WGMMA = r"\bwgmma\.mma_async\.sync\.aligned\.m64n\d+k16\.f32\.{0}\.{0}\b"
WMMA, MFMA = r"\bv_wmma_f32_16x16x16_{}\b", r"\bv_mfma_f32_\d+x\d+x\d+_?{}(_1k)?\b"
# Instructions that multiply two matrices of 16-bit floats. sm_90a's large tiles have wgmma, small ones mma.sync.
UNITS = {"gfx1100": WMMA, "gfx942": MFMA, "sm_86": MMA, "gfx1201": WMMA, "gfx90a": MFMA, "sm_75": MMA.replace("k16", "k8"),
         "sm_80": MMA, "sm_89": MMA, "sm_90a": f"(?:{MMA}|{WGMMA})"}
WHOLE = ("gfx1100", "gfx942", "sm_86")  # of which more than GPT-2 nano in one precision is looked at without --all
BF16 = ("gfx942", "gfx90a", "sm_80", "sm_89")  # without --all; others: f16

MODELS = {"gpt2-nano": [], "resnet18": ["--input", "3,32,32", "--batch-size", "64"]}


def sources(chip, model, precision, folder):
    """The contractions in the plan, each once: {their kernels' sources: what they compute}. Sums of parts may be kernels of their own."""
    subprocess.run([PROGRAM, "kernels", "dump", "--model", model, *MODELS[model], "--precision", precision, "--arch", chip,
                    "--out", folder], check=True, stdout=subprocess.DEVNULL)
    steps = {}
    for launch in json.loads((folder / "launches.json").read_text()):
        if CONTRACTIONS.search(launch["ops"]):
            steps.setdefault(launch["step"], []).append(launch)
    found = {}
    for launches in steps.values():
        texts = tuple((folder / launch["file"]).read_bytes() for launch in launches)
        found.setdefault(texts, (tuple(folder / launch["file"] for launch in launches),
                                 f"{launches[0]['ops']} by {launches[0]['kernel']}"))
    return dict(found.values())


def machine_code(chip, path):
    if path.suffix == ".hip":
        return clang_for(chip).assembly(chip, path)
    compiler = nvrtc(chip)
    text = compiler.built(chip, path, lambda program: compiler.text(program, "PTX"))
    if isinstance(text, str):
        raise ValueError(text)
    return text.decode(errors="replace")


def findings_of(chip, model, precision, folder):
    """(kernels looked at, texts of what is wrong)."""
    kernels = sources(chip, model, precision, folder)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        codes = list(pool.map(lambda paths: "".join(machine_code(chip, path) for path in paths), kernels))
    bad = []
    for op, code in zip(kernels.values(), codes):
        types = ("f16", "bf16") if precision == "f32" else (precision,)
        has = any(re.search(UNITS[chip].format(one), code) for one in types)
        if has != (precision != "f32"):
            bad.append(f"{chip} {model} {precision}: {op} {'multiplies in 16 bits' if has else 'has no matrix instruction of ' + precision}")
    if chip == "sm_90a" and precision != "f32" and not any(re.search(WGMMA.format(precision), code) for code in codes):
        bad.append(f"{chip} {model} {precision}: no kernel has wgmma")
    return len(kernels), bad


def plans_of(chip, everything):
    """The (model, precision) that are looked at."""
    if everything:
        return [(model, one) for model in MODELS for one in ("f16", "bf16", "f32") if (chip, one) != ("sm_75", "bf16")]
    one = "bf16" if chip in BF16 else "f16"
    return [("gpt2-nano", one)] + ([("gpt2-nano", "f32"), ("resnet18", one)] if chip in WHOLE else [])


def main():
    chips = [one for one in sys.argv[1:] if one in UNITS] or list(UNITS)
    if not PROGRAM.exists():
        print("matrix_units: build/release is not built: skipped")
        return 77
    compilers = {chip: nvrtc(chip) if chip.startswith("sm_") else clang_for(chip) for chip in chips}
    for chip, compiler in compilers.items():
        if not compiler.knows(chip):
            print(f"matrix_units: {compiler.name or 'clang++'} is missing or does not know {chip}: left out")
    chips = [chip for chip in chips if compilers[chip].knows(chip)]
    bad = 0
    with tempfile.TemporaryDirectory() as name:
        for chip in chips:
            for model, precision in plans_of(chip, "--all" in sys.argv):
                count, found = findings_of(chip, model, precision, pathlib.Path(name, f"{chip}-{model}-{precision}"))
                print(f"{chip} {model} {precision}: {count} products, attentions and convolutions, {len(found)} with findings")
                print(*(f"  {text}" for text in found), sep="\n" if found else "", end="\n" if found else "")
                bad += len(found) + (count == 0)
    return 77 if not chips else 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
