"""The goals for products of 4096 x 4096 matrices."""

MATRIX = ("gfx942", "gfx1100", "gfx1201", "sm_80", "sm_89", "sm_90")  # f16 and bf16, with sums in f32
LANES = ("gfx906", "gfx1030", "sm_61", "sm_70", "sm_75")  # f32 by FMA
MATRIX_SHARE, LANES_SHARE = 0.85, 0.80  # of the unit's peak (on sm_90: of what mma.sync reaches)
ENDS_IN_MEMORY = "8 groups dw"  # where this loop begins and ends is not known, so on some chips it is not followed


def missed(chip, title, dtype, made):
    """The goals that a kernel misses, as texts. The goals of speed are for products
    whose operands lie in memory; no kernel may spill."""
    findings = []
    if made.program.spills:
        findings.append(f"spills {made.program.spills} registers")
    if "attention" in title or title.startswith(("normalised", ENDS_IN_MEMORY)):
        return findings
    # Instructions that read local memory themselves (wgmma) use descriptors, whose addresses are not followed.
    # Bytes that are turned on their way to local memory have some: they are stored four rows at a time.
    turned = dtype in ("i8", "f8e4m3", "f8e5m2") and not title.startswith("B along k")
    if not turned and (made.conflicts is None or made.conflicts > 0):
        findings.append("bank conflicts" if made.conflicts else "its bank conflicts are not known")
    matrix = chip in MATRIX and dtype in ("f16", "bf16")
    if matrix and not made.counts["matrix"]:
        findings.append("no matrix instruction in its loop")
    goal = MATRIX_SHARE if matrix else LANES_SHARE if chip in LANES and dtype == "f32" else 0
    if made.of_unit < goal:
        findings.append(f"reaches {100 * made.of_unit:.0f} % of its unit's peak, the goal is {100 * goal:.0f} %")
    return findings
