"""The rates of a chip in a clock cycle: rates.toml, with units and bandwidth of its card (data/typical_gpus.csv) from
data/gpus.csv."""
import csv
import functools
import pathlib
import re
import types

HERE = pathlib.Path(__file__).resolve().parent
DATA = HERE.parent.parent / "data"


@functools.cache
def tables():
    import tomllib  # Python 3.11; the code for other tasks runs on older ones
    return tomllib.loads((HERE / "rates.toml").read_text())


def rows(name):
    with open(DATA / name, newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


@functools.cache
def cards():
    return {row["name"]: row for row in rows("gpus.csv")}


@functools.cache
def typical():
    return {row["arch_id"]: row["name"] for row in rows("typical_gpus.csv")}


def number_of(chip):
    """75 for "sm_75", 90 for "sm_90a"."""
    return int(re.sub(r"\D", "", chip))


def known_chips():
    return list(tables()["chips"])


def architecture(name):
    own = dict(tables()[name])
    base = own.pop("base", None)
    return (architecture(base) if base else {}) | own


@functools.cache
def chip(name):
    """All figures of a chip as attributes. Throws KeyError if it is not in rates.toml."""
    entry = dict(tables()["chips"][name])
    of = entry.pop("of")
    absent = {"matrix": {}, "matrix_beside_vector": True, "matrix_issue": 1, "matrix_blocks": None, "dual": False,
              "packed_f32": False, "before_volta": False, "accumulators": None, "local_reserved": 0, "most_registers": 512, "mma_share": 1.0, "sheet_flops": None}
    figures = absent | architecture(of) | entry | {"card": typical()[name]}
    card = cards()[figures["card"]]
    units = int(card["compute_units"])
    # The clock that the data sheet counts with follows from the peak of f32.
    clock = float(card["fp32_tflops"]) * 1e12 / (units * (figures["sheet_flops"] or figures["fma_flops"]))
    packed = float(card["fp16_vector_tflops"]) / float(card["fp32_tflops"])
    figures |= {"name": name, "packed_f16": packed, "architecture": of, "units": units, "clock": clock,
                "memory_bytes_cycle": float(card["bandwidth_gb_s"]) * 1e9 / clock / units}
    return types.SimpleNamespace(**figures)
