"""Runs the kernel by which the exchanges of a unit's lanes are tried (athanor/backends/gpu/exchange_trial.cpp)."""
import struct
import sys

from opencl_units.chips import compiled


def wanted(items):
    """SHUFFLE_XOR and EXCHANGE of two registers, over each distance in a wave, of two waves."""
    def number(item, which):
        return (item * 16777619 + which) & 0xffffffff
    numbers, bit = [], 1
    while bit < items // 2:
        x, y = bit + 1000, bit + 2000
        numbers += [number(item ^ bit, bit) for item in range(items)]
        numbers += [number(item ^ bit, y) if item & bit else number(item, x) for item in range(items)]
        numbers += [number(item, y) if item & bit else number(item ^ bit, x) for item in range(items)]
        bit *= 2
    return numbers


def check_exchange(driver, chip, kernels, folder):
    one, text = next(((one, text) for one, text in kernels if one["op"] == "exchange"), (None, None))
    if one is None:
        sys.exit(f"check-opencl-units: {chip}: no kernel exchanges numbers between lanes")
    items = one["group_size"][0]
    want = wanted(items)
    memory = driver.upload(b"\x7f" * (4 * len(want)))
    code = compiled(text, one["compile_options"], chip, folder)
    driver.run(code, 1, items, [memory], b"exchange_lanes")
    got = struct.unpack(f"<{len(want)}I", driver.download(memory, 4 * len(want)))
    wrong = sum(a != b for a, b in zip(got, want))
    print(f"{chip}: {wrong} of {len(want)} numbers that lanes exchange are wrong", flush=True)
    return int(wrong > 0)
