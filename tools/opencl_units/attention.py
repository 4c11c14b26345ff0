"""Runs attention's kernels on 200 queries, and compares the first head with a reference in float64."""
import math
import operator
import random
import re
import sys

from opencl_units.chips import F16, F32, Bf16, compiled

ROWS = 200  # of write_candidates
SCALE = 0.125
# How each type is stored, and which share of the largest value an error may be.
TYPES = {"f16": (F16, 2e-3), "bf16": (Bf16, 1.6e-2), "f32": (F32, 1e-5), "tf32": (F32, 4e-3)}


def types_of(chip):
    """Those that the chip's units multiply in attention. (The virtual gfx942 has no xf32.)"""
    if chip.startswith("sm_"):
        return {"f16"} if int(chip.strip("sm_a")) < 80 else {"f16", "bf16", "tf32"}
    return {"f16", "bf16", "f32"} if chip.startswith("gfx9") else {"f16", "bf16"}


def dot(a, b):
    return sum(map(operator.mul, a, b))


def reference(q, k, v, g, causal):
    """The results of each op, and log-sum-exp and delta, of rows of numbers."""
    def weighted(rows, others):
        columns = list(zip(*others))
        return [[dot(row, column) for column in columns] for row in rows]
    weights, lse = [], []
    for i, row in enumerate(q):
        scores = [SCALE * dot(row, other) for other in (k[:i + 1] if causal else k)]
        largest = max(scores)
        exps = [math.exp(x - largest) for x in scores] + [0.0] * (len(k) - len(scores))
        weights.append([x / sum(exps) for x in exps])
        lse.append(largest + math.log(sum(exps)))
    y = weighted(weights, v)
    delta = [dot(a, b) for a, b in zip(y, g)]
    scores = [[w * SCALE * (dot(row, other) - d) for w, other in zip(ws, v)] for ws, row, d in zip(weights, g, delta)]
    return {"y": y, "lse": [[x] for x in lse], "delta": [[x] for x in delta], "dq": weighted(scores, k),
            "dk": weighted(zip(*scores), q), "dv": weighted(zip(*weights), g)}


class Problem:
    """Inputs and results. All types hold the inputs exactly, but for lse and delta."""

    def __init__(self, features, causal):
        numbers = {name: [[random.randint(-64, 64) / 32 for _ in range(features)] for _ in range(ROWS)] for name in "qkvg"}
        self.numbers = {**numbers, **reference(*numbers.values(), causal)}

    def flat(self, name):
        return sum(self.numbers[name], [])


def results_of(op, names):
    """What the outputs of a kernel are, by their names in it."""
    if op == "attention_grad_q" and "out_2" in names:  # all gradients: a launch of its own adds those by q
        return {"out": "dk", "out_2": "dv"}
    first = {"scaled_dot_product_attention": "y", "attention_lse": "lse", "attention_grad_q": "dq", "attention_grad_k": "dk",
             "attention_grad_v": "dv"}[op]
    return {"out": first, "out_2": "dv"}


def error_of(want, got):
    errors = [abs(a - b) for a, b in zip(got, want)]
    return math.nan if any(map(math.isnan, errors)) else max(errors) / max(map(abs, want))


class Run:
    """One candidate: a launch or, for all gradients, two."""

    def __init__(self, driver, problem, dtype):
        self.driver, self.problem, self.dtype = driver, problem, dtype
        self.copies = None  # the gradient by queries of each part of the keys

    def launch(self, one, text, code):
        """Returns the largest error of each result."""
        kernel, parameters = re.search(r"KERNEL .*?(flash_attention\w*)\((.*)\) {", text).groups()
        names = re.findall(r", (\w+)\)", parameters)
        results, outputs, buffers = results_of(one["op"], names), {}, []
        for name in names:
            wide = name in ("lse", "delta") or (name == "out" and one["op"] == "attention_lse")
            stored = F32 if wide else TYPES[self.dtype][0]
            if name == "copies":
                if self.copies is None:
                    size = 4 * number(r"of (\d+) parts", one["kernel"]) * number(r"GROUP_ID\(0\) \* \(i64\)(\d+)", text)
                    self.copies = self.driver.upload(b"\x7f" * size)
                buffers.append(self.copies)
            elif name.startswith("out"):
                want = self.problem.flat(results[name])
                memory = self.driver.upload(b"\x7f" * (len(want) * stored.size))  # no number, or a large one
                outputs[results[name]] = want, stored, memory
                buffers.append(memory)
            else:
                buffers.append(self.driver.upload(stored.bytes_of(self.problem.flat(name))))
        self.driver.run(code, number(r"batch = GROUP_ID\(0\)(?: / (\d+))?", text), one["group_size"][0], buffers,
                        kernel.encode())
        return {name: error_of(want, stored.numbers(self.driver.download(memory, len(want) * stored.size)))
                for name, (want, stored, memory) in outputs.items()}


def number(pattern, text):
    return int(re.search(pattern, text)[1] or 1)


def candidates(kernels):
    """Those of attention by matrix units: lists of launches, with their texts."""
    found = []
    for one, text in kernels:
        if re.search(r" by (tf32 )?(dpas|wmma|mfma|mma) ", text) and f"< {ROWS}" in text:
            found.append([(one, text)])
        elif found and one["file"].endswith("_sum.cl") and one["kernel"] == found[-1][0][0]["kernel"]:
            found[-1].append((one, text))
    return found


def check_attention(driver, chip, shown, prelude, kernels, folder, types, short):
    """`types`: those that must be there. `short`: the first candidate of each op, of each type."""
    problems, failed, ran = {}, 0, set()
    for launches in candidates(kernels):
        one, text = launches[0]
        features = number(r"first \* \(i64\)(\d+)", text)
        causal = " <= own_0" in text or "own_0 <= " in text
        kind = "all gradients" if len(launches) > 1 else one["op"]
        if (one["dtype"], kind) in ran and short:
            continue
        if (features, causal) not in problems:
            problems[features, causal] = Problem(features, causal)
        run, errors = Run(driver, problems[features, causal], one["dtype"]), {}
        for entry, source in launches:
            code = compiled(prelude + source, entry["compile_options"], chip, folder)
            errors.update(run.launch(entry, source, code))
        listed = ", ".join(f"{name} {error:.4%}" for name, error in errors.items())
        print(f"{shown}: {kind}, {one['dtype']}, {one['kernel']}{', causal' if causal else ''}: the largest errors are {listed} "
              "of the largest value", flush=True)
        failed += not all(error < TYPES[one["dtype"]][1] for error in errors.values())
        ran.add((one["dtype"], kind))
    ops = {"scaled_dot_product_attention", "attention_grad_q", "attention_grad_k", "all gradients"}
    wanted = {(dtype, op) for dtype in types for op in ops if op != "all gradients" or dtype in ("f16", "bf16")}
    if missing := wanted - ran:
        sys.exit(f"{shown}: no kernel was found for {', '.join(sorted(' in '.join(reversed(pair)) for pair in missing))}")
    return failed
