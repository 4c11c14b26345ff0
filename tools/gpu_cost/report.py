"""The table for people, and the same in Markdown."""
import csv
import functools
import pathlib

from . import rates

MEASURED = pathlib.Path(__file__).resolve().parent / "measured.csv"
COLUMNS = (("kernel", 19), ("type", 4), ("math", 8), ("r/w", 6), ("confl", 5), ("glob", 4), ("addr", 4), ("else", 4), ("wait", 4), ("regs", 4),
           ("spill", 5), ("KiB", 4), ("waves", 5), ("unit", 4), ("peak", 4), ("bound by", 16), ("meas", 4))


def percent(value):
    return "?" if value is None else f"{100 * value:.0f}%"


@functools.cache
def measured():
    """TFLOP/s by chip, kernel and type, with the peak of the card that they were measured on."""
    with open(MEASURED, newline="") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        return {(row["chip"], row["kernel"], row["type"]): (float(row["tflops"]), float(row["card_peak_tflops"])) for row in rows}


def cells(chip, title, dtype, made):
    """The texts of a row."""
    found = measured().get((chip, title, dtype))
    counts, program = made.counts, made.program
    unit = "mma" if made.unit == "matrix" else "FMA"
    other = sum(counts[kind] for kind in ("vector", "shuffle", "scalar", "scalar_load", "transcendental", "branch"))
    first, most = max(made.busy.items(), key=lambda item: item[1], default=("", 0))
    bound = made.bound if made.bound != "waiting" else f"wait, {first} {percent(most)}"
    return (title, dtype, f"{counts[made.unit]} {unit}", f"{counts['local_read']}/{counts['local_write'] + counts['copy']}",
            percent(made.conflicts), str(counts["global_read"] + counts["copy"]), str(made.integers), str(other - made.integers), str(counts["wait"] + counts["barrier"]),
            str(program.registers), str(program.spills), f"{program.local / 1024:.1f}", f"{made.occupancy.mean:.3g}/{made.occupancy.most}",
            percent(made.of_unit), percent(made.share), bound, percent(found[0] / found[1]) if found else "")


def line(texts):
    out = []
    for (name, width), text in zip(COLUMNS, texts):
        out.append(text[:width].ljust(width) if name in ("kernel", "type", "bound by") else text.rjust(width))
    return " ".join(out).rstrip()


def chip_title(name):
    chip = rates.chip(name)
    return f"{name} ({chip.card})"


def print_table(rows):
    """rows: (chip, title, dtype, prediction), sorted by chip."""
    before = None
    for chip, title, dtype, made in rows:
        if chip != before:
            print(f"\n{chip_title(chip)}\n{line([name for name, _ in COLUMNS])}")
            before = chip
        print(line(cells(chip, title, dtype, made)))


def print_notes(chip, title, dtype, made):
    print(f"\n{chip} {title} {dtype}\n  busy: " + ", ".join(
        f"{pipe} {percent(share)}" for pipe, share in sorted(made.busy.items(), key=lambda item: -item[1]) if share >= 0.01))
    for share, text in made.waits:
        if share >= 0.01:
            print(f"  a wave spends {percent(share)} of its time waiting to issue {text[:70]}")
    print(f"  if every latency of memory were twice as long: {percent(made.slow_share)} of the peak")
    for note in made.notes:
        print(f"  {note}")


def markdown(rows):
    names = ["chip", *(name for name, _ in COLUMNS[:-1]), "slow", COLUMNS[-1][0]]
    lines = ["| " + " | ".join(names) + " |", "| --- " * len(names) + "|"]
    for chip, title, dtype, made in rows:
        *texts, last = cells(chip, title, dtype, made)
        lines.append("| " + " | ".join([chip, *texts, percent(made.slow_share), last]) + " |")
    return "\n".join(lines) + "\n"
