"""Runs products of matrices of small whole numbers, whose sums are exact."""
import random
import re
import sys

from opencl_units.chips import F16, F32, Bf16, compiled

SHAPES = [(128, 10, 512), (128, 96, 256)]  # m, n, k of write_candidates: of the second, lanes exchange elements
TYPES = {"f16": F16, "bf16": Bf16}


class Problem:
    def __init__(self, m, n, k):
        self.m, self.n, self.k = m, n, k
        self.a = [[random.randint(-3, 3) for _ in range(k)] for _ in range(m)]
        self.b = [[random.randint(-3, 3) for _ in range(n)] for _ in range(k)]
        columns = list(zip(*self.b))
        self.want = [sum(x * y for x, y in zip(row, column)) for row in self.a for column in columns]

    def wrong_elements(self, driver, text, code, items, dtype):
        m, n = self.m, self.n
        tile_m, tile_n = (int(x) for x in re.search(r"a group computes (\d+) x (\d+)", text).groups())
        parts = re.search(r"k_begin = part \* (\d+)", text)
        splits = -(-self.k // int(parts[1])) if parts else 1
        turned = f"C[{n}, {m}]" in text  # it computes C' = B' A'
        rows, columns = (n, m) if turned else (m, n)
        place = re.search(r"const c = c_matrices.*m0(?: \* \(i64\)(\d+))? \+ n0(?: \* \(i64\)(\d+))?;", text)
        row_step, column_step = (int(x or 1) for x in place.groups())
        if turned:
            row_step, column_step = column_step, row_step
        factor = TYPES[dtype]
        result = factor if f"BUFFER(STORED({dtype}), c_matrices)" in text else F32
        size = splits * m * n * result.size
        memory = driver.upload(b"\x7f" * size)
        inputs = [driver.upload(factor.bytes_of(sum(x, []))) for x in ((self.b, self.a) if turned else (self.a, self.b))]
        driver.run(code, -(-rows // tile_m) * -(-columns // tile_n) * splits, items, inputs + [memory], b"gemm_tiles")
        got = result.numbers(driver.download(memory, size))
        wanted = result.numbers(result.bytes_of(self.want))
        return sum(sum(got[s * m * n + r * row_step + c * column_step] for s in range(splits)) != wanted[r * n + c]
                   for r in range(m) for c in range(n))


def check_products(driver, chip, kernels, folder, short):
    """`short`: the first candidate of each shape and type, and the first whose lanes exchange elements."""
    problems, failed, ran = {shape: Problem(*shape) for shape in SHAPES}, 0, set()
    for one, text in kernels:
        unit = re.search(r"C\[(\d+), (\d+)\].* by (.*)\.", text)
        parameters = re.search(r"KERNEL void gemm_tiles\((.*)\)", text)
        if one["op"] != "batch_matmul" or one["dtype"] not in TYPES or unit is None or parameters is None:
            continue
        shape = next((s for s in SHAPES if {*s[:2]} == {int(unit[1]), int(unit[2])}), None)
        if shape is None or "#define MULTIPLY_ADD" not in text or parameters[1].count("BUFFER(") != 3:  # stream-K
            continue
        how = one["dtype"], shape, "EXCHANGE(" in text[parameters.start():]
        if how in ran and short:
            continue
        code = compiled(text, one["compile_options"], chip, folder)
        wrong = problems[shape].wrong_elements(driver, text, code, one["group_size"][0], one["dtype"])
        m, n, k = shape
        print(f"{chip}: product of {m} x {n} x {k}, {one['dtype']}, {one['kernel']}{', exchanged' if how[2] else ''}: "
              f"{wrong} of {m * n} elements are wrong", flush=True)
        failed += wrong > 0
        ran.add(how)
    if not ran:
        sys.exit(f"{chip}: no product's kernel was found")
    if chip.startswith(("sm_", "gfx11")) and not any(exchanged for *_, exchanged in ran):
        sys.exit(f"{chip}: no product whose lanes exchange elements was found")
    return failed
