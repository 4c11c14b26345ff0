"""What a chip does in a clock cycle: rates.toml, with its card's units and bandwidth from data/gpus.csv."""
import csv
import functools
import pathlib
import types

HERE = pathlib.Path(__file__).resolve().parent
CARDS = HERE.parent.parent / "data" / "gpus.csv"


@functools.cache
def tables():
    import tomllib  # Python 3.11; what does without predictions runs on older ones
    return tomllib.loads((HERE / "rates.toml").read_text())


@functools.cache
def cards():
    with open(CARDS, newline="") as file:
        return {row["name"]: row for row in csv.DictReader(line for line in file if not line.startswith("#"))}


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
              "packed_f32": False, "accumulators": None, "local_reserved": 0, "most_registers": 512, "mma_share": 1.0, "sheet_flops": None}
    figures = absent | architecture(of) | entry
    card = cards()[figures["card"]]
    units = int(card["compute_units"])
    # From the peak of f32 follows the clock that the data sheet counts with.
    clock = float(card["fp32_tflops"]) * 1e12 / (units * (figures["sheet_flops"] or figures["fma_flops"]))
    packed = float(card["fp16_vector_tflops"]) / float(card["fp32_tflops"])
    figures |= {"name": name, "packed_f16": packed, "architecture": of, "units": units, "clock": clock,
                "memory_bytes_cycle": float(card["bandwidth_gb_s"]) * 1e9 / clock / units}
    return types.SimpleNamespace(**figures)
