"""How many waves a SIMD holds."""
import dataclasses
import math


@dataclasses.dataclass
class Occupancy:
    waves: int       # of the SIMD (NVIDIA: sub-partition) that holds the most
    mean: float      # of all SIMDs: less if groups of few waves do not fill them evenly
    groups: int      # on the units that share local memory: an SM, a CU, a WGP
    most: int        # waves that a SIMD could hold
    limit: str       # registers, local memory, group or chip: the limiting one


def up(value, step):
    return -(-value // step) * step


def registers_of_wave(chip, program):
    """The registers that a wave takes of a SIMD's file, whose registers are those of a wave (RDNA: of 32 lanes)."""
    wanted = max(program.registers, 1)
    if chip.vendor == "nvidia":
        return up(wanted, chip.granule)
    double = 2 if chip.lanes == 32 and program.wave == 64 else 1
    return up(wanted, chip.granule // double) * double


def occupancy(chip, program):
    """The occupancy with groups of program.items, if there are enough of them for the chip."""
    waves = max(-(-program.items // program.wave), 1)
    simds = chip.simds * chip.share_units
    by_registers = chip.registers // registers_of_wave(chip, program)
    if chip.vendor == "amd" and chip.lanes == 16:
        by_registers = min(by_registers, chip.most_waves)
    if chip.vendor == "nvidia":
        # A group's warps are dealt to the sub-partitions in turn.
        by_registers = by_registers * simds // waves
        by_chip = min(chip.most_waves * simds // waves, chip.most_groups)
    else:
        # A wave does not know its SIMD before it starts; each takes the next with room.
        by_registers = by_registers * simds // waves
        by_chip = chip.most_waves * simds // waves
        if waves > 1:
            by_chip = min(by_chip, chip.most_groups)
    local = up(program.local + chip.local_reserved, chip.local_granule) if program.local + chip.local_reserved else 0
    by_local = chip.local_size // local if local else by_chip
    groups = min(by_registers, by_chip, by_local)
    limit = ("chip" if groups == by_chip else "registers" if groups == by_registers else "local memory")
    if program.local > chip.local_most:
        groups, limit = 0, "local memory"
    mean = min(groups * waves / simds, chip.most_waves)
    return Occupancy(math.ceil(mean), mean, groups, chip.most_waves, limit)
