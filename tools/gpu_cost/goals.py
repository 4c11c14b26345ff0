"""The goals for products of 4096 x 4096 matrices."""

MATRIX = ("gfx942", "gfx1100", "gfx1201", "sm_80", "sm_89", "sm_90", "sm_90a")  # f16 and bf16, with sums in f32
DOTS = ("gfx906", "gfx1030")  # f16 by sums of two products
LANES = ("gfx906", "gfx1030", "sm_61", "sm_70", "sm_75")  # f32 by FMA
MATRIX_SHARE, LANES_SHARE = 0.85, 0.80  # of the unit's peak (on sm_90: of what mma.sync reaches)
# Goals that docs/predicted-speed.md says are missed. They are named each time; only a smaller share is a finding.
MISSED = {("gfx906", "f16"): 0.80, ("sm_90a", "f16"): 0.82, ("sm_90a", "bf16"): 0.82}
ENDS_IN_MEMORY = "8 groups dw"  # where this loop begins and ends is not known, so on some chips it is not followed


def is_judged(title):
    """Whether the goals are for this kernel: they are for products whose operands lie in memory."""
    return "attention" not in title and not title.startswith(("normalised", ENDS_IN_MEMORY))


def goal_of(chip, dtype):
    """The share that products should reach; 0: there is no goal."""
    if dtype in ("f16", "bf16") and chip in MATRIX or dtype == "f16" and chip in DOTS:
        return MATRIX_SHARE
    return LANES_SHARE if dtype == "f32" and chip in LANES else 0


def speed_missed(chip, title, dtype, made):
    """The goal of speed that a kernel misses as a text, "" if none, and whether this is known."""
    goal, by_dots = goal_of(chip, dtype), dtype == "f16" and chip in DOTS
    share = made.share if by_dots else made.of_unit
    if not is_judged(title) or share >= goal:
        return "", False
    peak = "the chip's peak" if by_dots else "its unit's peak"
    return f"reaches {100 * share:.0f} % of {peak}, the goal is {100 * goal:.0f} %", share >= MISSED.get((chip, dtype), 1)


def missed(chip, title, dtype, made):
    """What is wrong with a kernel, as texts: no kernel may spill, and products must reach their goals, apart from misses that
    are known."""
    findings = []
    if made.program.spills:
        findings.append(f"spills {made.program.spills} registers")
    if not is_judged(title):
        return findings
    # Instructions that read local memory themselves (wgmma) use descriptors, whose addresses are not followed.
    # Bytes that are turned on their way to local memory have some: they are stored four rows at a time.
    turned = dtype in ("i8", "f8e4m3", "f8e5m2") and not title.startswith("B along k")
    if not turned and (made.conflicts is None or made.conflicts > 0):
        findings.append("bank conflicts" if made.conflicts else "its bank conflicts are not known")
    if chip in MATRIX and dtype in ("f16", "bf16") and not made.counts["matrix"]:
        findings.append("no matrix instruction in its loop")
    text, known = speed_missed(chip, title, dtype, made)
    return findings + [text] if text and not known else findings
