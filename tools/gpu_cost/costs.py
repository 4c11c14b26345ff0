"""The parts of a chip that an instruction keeps busy, and for how long."""
import dataclasses
import re

from . import banks


@dataclasses.dataclass
class Cost:
    issue: dict     # pipe of the SIMD -> cycles that it is busy; the instruction waits until all are free
    queued: dict    # later stages (local memory, caches) -> cycles of the SIMD's share
    latency: int    # cycles from then until its result is there
    local_extra: int = 0   # cycles of bank conflicts, included in those of local memory
    bytes: int = 0         # of global memory that the wave moves
    known: bool = True     # whether the addresses are known


def vector_cycles(chip, program, instruction):
    """The cycles of AMD's SIMD for an instruction of all lanes."""
    cycles = max(program.wave // chip.lanes, 1)
    if chip.dual and program.wave == 64 and instruction.kind == "fma" and instruction.name.endswith("f32"):
        cycles = 1  # both halves at once
    return cycles


def matrix_cycles(chip, instruction):
    shape = re.search(r"\d+x\d+x\d+_\w+", instruction.name)  # some chips have slower ones for the same type
    rate = chip.matrix.get(shape and shape[0]) or chip.matrix.get(instruction.dtype)
    if not rate:
        raise ValueError(f"{chip.name}: rates.toml does not say how fast {instruction.name} is")
    if chip.vendor == "amd" and chip.matrix_blocks and is_blocked(instruction):
        rate = min(rate, chip.matrix_blocks)
    if "GMMA" not in instruction.name:
        rate *= chip.mma_share
    return instruction.flops / rate


def is_blocked(instruction):
    from .amd import matrix_shape
    return matrix_shape(instruction.name)[2] > 1 and instruction.dtype != "f32"


MEMORY = ("local_read", "local_write", "shuffle", "global_read", "global_write", "copy", "scratch")


def sector_of(chip):
    return 64 if chip.vendor == "amd" else 32


def memory_cost(chip, program, instruction, addresses, together, fresh):
    """The cost of a load, store or copy, with the addresses of the wave's lanes if they are known. together: groups that
    share tiles. fresh: the share of what it reads that no other wave of the group reads too, and that L1 therefore does not
    have."""
    kind, issue = instruction.kind, {}
    amd = chip.vendor == "amd"
    if not amd:
        issue["issue"] = issue_cycles(instruction)
    # The SIMDs of a unit share the following stages: this SIMD's instruction takes its part and waits for the others'.
    share, queued, extra, moved = chip.simds, {}, 0, 0
    if kind == "shuffle":  # uses local memory's lanes, not its banks
        queued["local"] = max(program.wave * 4 / chip.local_bytes_cycle, 1) * share
    box = program.box_bytes / max(program.items // program.wave, 1) if kind == "copy" and not instruction.bytes else 0
    if kind in ("local_read", "local_write", "copy"):
        lanes = addresses.local if addresses else None
        if lanes:
            cycles, least = banks.local_cycles(chip, lanes, instruction_width(instruction), kind == "local_read")
            factor = instruction_parts(instruction)
            cycles, extra = cycles * factor, (cycles - least) * factor
        else:
            cycles = max((box or program.wave * instruction.bytes) / chip.local_bytes_cycle, 1)
        queued["local"] = cycles * share
        extra *= share
    if kind in ("global_read", "global_write", "copy", "scratch"):
        lanes = addresses.globals if addresses else None
        sector = sector_of(chip)
        # One lane copies a box for the whole group.
        moved, fresh = (box, 1) if box else (banks.global_bytes(lanes, instruction.bytes, sector) if lanes else
                                             program.wave * instruction.bytes, fresh)
        queued["L1"] = max(moved / chip.l1_bytes_cycle, program.wave / (16 if amd else 32)) * share
        if kind != "scratch":
            queued["L2"] = fresh * moved / chip.l2_bytes_cycle * share
            # Groups that run at the same time use the same rows and columns of tiles.
            queued["memory"] = fresh * moved / max(together, 1) ** 0.5 / chip.memory_bytes_cycle * share
    latency = chip.latency["local" if kind.startswith(("local", "shuffle")) else "global"]
    known = kind in ("scratch", "shuffle") or bool(addresses and (addresses.local or not kind.startswith("local")))
    return Cost(issue, queued, latency, extra, moved, known)


def instruction_width(instruction):
    """Bytes of a lane at one address: ds_read2 has two, LDSM's lanes give the addresses of rows of 16 bytes."""
    if instruction.name.startswith("LDSM") or instruction.name.startswith("STSM"):
        return 16
    return instruction.bytes // instruction_parts(instruction) if instruction.name.startswith("ds_") else instruction.bytes


def instruction_parts(instruction):
    return 2 if re.search(r"ds_(read|load|write|store)_?(2|2addr)(st|_)", instruction.name) else 1


def amd_cost(chip, program, instruction, addresses, together, fresh):
    kind, latency = instruction.kind, chip.latency
    if kind in MEMORY:
        return memory_cost(chip, program, instruction, addresses, together, fresh)
    if kind == "matrix":
        cycles = matrix_cycles(chip, instruction)
        if chip.matrix_beside_vector:
            return Cost({"vector": chip.matrix_issue, "matrix": cycles}, {}, cycles + 4)
        return Cost({"vector": cycles}, {}, cycles + latency["vector"])
    if kind in ("fma", "vector", "transcendental"):
        cycles = vector_cycles(chip, program, instruction)
        if kind == "transcendental":
            issue = {"vector": cycles, "slow": 4 * cycles} if chip.lanes == 32 else {"vector": 4 * cycles}
            return Cost(issue, {}, latency["transcendental"])
        return Cost({"vector": cycles}, {}, latency["vector"])
    if kind == "scalar":
        return Cost({"scalar": chip.issue}, {}, latency["scalar"])
    if kind == "scalar_load":
        return Cost({"scalar": chip.issue}, {}, latency["scalar_load"])
    if kind in ("branch", "end"):
        return Cost({"branch": chip.issue}, {}, 16)
    return Cost({}, {}, latency["barrier"] if kind == "barrier" else 0)


FMA_PIPE = {"FFMA", "FFMA2", "FMUL", "FADD", "FFMA32I"}
HALF_PIPE = {"HFMA2", "HADD2", "HMUL2", "HFMA2_MMA"}
COMPARE_PIPE = {"SHL", "SHR", "SHF", "BFE", "BFI", "ISCADD", "ISCADD32I", "LEA", "ISETP", "ISET", "IMNMX", "ICMP", "FSETP", "FSET", "FMNMX",
                "FCMP", "PSETP", "PSET"}


def issue_cycles(instruction):
    return 0 if instruction.control.paired else 1


def nvidia_cost(chip, program, instruction, addresses, together, fresh):
    kind, pipes = instruction.kind, chip.pipes
    if kind in MEMORY:
        return memory_cost(chip, program, instruction, addresses, together, fresh)
    issue, latency = {"issue": issue_cycles(instruction)}, 6
    base = instruction.name.split(".")[0]
    if kind == "matrix":
        cycles = matrix_cycles(chip, instruction)
        issue["matrix"] = cycles
        latency = max(chip.latency["matrix"], cycles + 16)
        if "GMMA" in instruction.name:  # wgmma reads B, and A if it is no register, from local memory, once for four warps
            m, n, k = map(int, re.search(r"(\d+)x(\d+)x(\d+)", instruction.name).groups())
            element = {"f16": 2, "bf16": 2, "tf32": 4}.get(instruction.dtype, 1)
            rows = n if instruction.operands[1].startswith("R") else m + n
            return Cost(issue, {"local": rows * k * element / chip.local_bytes_cycle}, latency)
    elif base in FMA_PIPE:
        issue["fma"] = pipes["fma"]
    elif base in ("IMAD", "IDP", "IMUL", "IMAD32I"):
        issue["imad"] = pipes["imad"]
        issue["fma"] = pipes["fma"]
    elif base in HALF_PIPE:
        issue["fma"] = pipes["half"]
    elif base.startswith("D") and base in ("DFMA", "DADD", "DMUL", "DSETP"):
        issue["f64"] = pipes["f64"]
    elif kind == "transcendental":
        issue["slow"], latency = pipes["xu"], chip.latency["xu"]
    elif kind == "scalar":
        issue["uniform"] = pipes["uniform"]
        latency = 12
    elif kind == "vector":
        cycles = pipes["compare"] if "compare" in pipes and base in COMPARE_PIPE else pipes["alu"]
        issue["fma" if chip.before_volta else "alu"] = cycles  # before sm_70, the same lanes compute both
    elif kind == "barrier":
        latency = chip.latency["barrier"]
    elif kind == "scalar_load":
        latency = 30
    return Cost(issue, {}, latency)


def cost_of(chip, program, instruction, addresses=None, together=1, fresh=1.0):
    make = amd_cost if chip.vendor == "amd" else nvidia_cost
    return make(chip, program, instruction, addresses, together, fresh)
