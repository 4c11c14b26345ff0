"""A kernel's row of the table: the work of its inner loop, and the share of peak that it can reach."""
import collections
import dataclasses
import itertools

from . import amd_lanes, sass_lanes
from .banks import sectors
from .costs import MEMORY, cost_of, sector_of
from .instruction import is_integer_arithmetic
from .loops import flops_in, pipeline_loop
from .occupancy import Occupancy, occupancy
from .simulate import simulate
from .walk import static_trace, walk


@dataclasses.dataclass
class Traced:
    """What a kernel's loop does, whatever else runs beside it."""
    loop: object                     # None: the whole kernel
    trace: object                    # of an iteration
    fresh: float = 1.0               # see fresh_share()
    shared: bool = True              # see groups_share()
    notes: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Prediction:
    program: object
    occupancy: Occupancy
    counts: collections.Counter      # instructions of an iteration, by kind
    integers: int = 0                # of them, arithmetic with integers: addresses and counters
    flops: int = 0                   # of a wave in an iteration
    dtype: str = "f32"               # the type of most of the FLOPs
    unit: str = "fma"                # matrix or fma: the unit that does most of them
    local_bytes: int = 0             # read and written by a wave in an iteration
    global_bytes: int = 0
    conflicts: float | None = 0.0    # share of local memory's cycles that are bank conflicts; None: addresses not known
    cycles: float = 0.0              # of an iteration of all the waves of a SIMD
    busy: dict = dataclasses.field(default_factory=dict)  # pipe -> share of the cycles
    share: float = 0.0               # of the chip's peak for the dtype
    slow_share: float = 0.0          # the same if all latencies of memory were twice as long
    of_unit: float = 0.0             # the same of the peak of the instructions that it uses
    bound: str = ""
    waits: list = dataclasses.field(default_factory=list)  # (share of a wave's time, instruction), the longest first
    notes: list = dataclasses.field(default_factory=list)
    lost: str = ""                   # why the loop is taken as it is in the code; "": it was run
    traced: Traced | None = None


NAMES = {"vector": "vector issue", "local": "local memory", "matrix": "matrix unit", "fma": "FMA unit", "scalar": "scalar issue",
         "issue": "issue", "alu": "integer unit", "imad": "integer unit", "L1": "L1", "L2": "L2", "memory": "memory", "slow": "slow arithmetic",
         "branch": "branches", "uniform": "uniform unit", "f64": "f64 unit"}


def machine_for(chip, program, text, extents, first=0, group=0):
    """The machine for the wave that begins with the group's item `first`."""
    if chip.vendor == "amd":
        return amd_lanes.Machine(program, amd_lanes.figures(text), extents, first, group)
    machine = sass_lanes.MaxwellMachine if chip.before_volta else sass_lanes.Machine
    return machine(program, extents, chip.name, first, group)


def sectors_read(chip, program, trace):
    """The sectors of global memory that a trace reads, with repetitions."""
    for at, addresses in trace.steps:
        instruction = program.instructions[at]
        if instruction.kind in ("global_read", "copy") and addresses and addresses.globals:
            yield from sectors(addresses.globals, instruction.bytes, sector_of(chip))


def groups_share(chip, program, loop, text, extents):
    """Whether the next group reads some of the same memory, as the tiles of a product do, perhaps some iterations earlier or
    later: causal attention's groups of keys begin at different queries."""
    try:
        own, others = (walk(program, machine_for(chip, program, text, extents, 0, group), loop, most_iterations=8, every=True)
                       for group in (0, 1))
    except (KeyError, ValueError, IndexError, TypeError):
        return True
    own, others = set(sectors_read(chip, program, own)), set(sectors_read(chip, program, others))
    return not own or len(own & others) >= 0.2 * len(own)


def fresh_share(chip, program, loop, text, extents, trace):
    """The share of a group's reads in the loop that L1 does not have yet: no other wave has read it."""
    total, distinct = 0, set()
    for first in range(0, program.items, program.wave):
        try:
            one = trace if first == 0 else walk(program, machine_for(chip, program, text, extents, first), loop)
        except (KeyError, ValueError, IndexError, TypeError):
            return 1.0
        touched = list(sectors_read(chip, program, one))
        total += len(touched)
        distinct.update(touched)
    return len(distinct) / total if total else 1.0


most_guesses = 8  # of which some are tried the other way


def trace_of(chip, program, loop, text, extents):
    """One iteration of the loop, with addresses if the arithmetic can be followed; otherwise the loop as it is in the code."""
    notes = []

    def is_followed(trace):
        return trace.steps and (not loop or flops_of(program, trace) >= flops_in(program, loop.body) // 2)

    machine = machine_for(chip, program, text, extents)
    try:
        trace = walk(program, machine, loop)
        # Wrong guesses before the loop may lead past it.
        guesses = range(0 if is_followed(trace) or not loop else min(trace.guessed, most_guesses))
        for others in itertools.chain(*(itertools.combinations(reversed(guesses), n) for n in (1, 2))):
            machine = machine_for(chip, program, text, extents)
            trace = walk(program, machine, loop, others=others)
            if is_followed(trace):
                break
    except (KeyError, ValueError, IndexError, TypeError) as error:
        trace = None
        notes.append(f"addresses not known: {type(error).__name__} {error}")
    if machine.missing:
        notes.append("not known to the walk: " + " ".join(sorted(machine.missing)))
    if trace and is_followed(trace):
        if trace.guessed:
            notes.append(f"{trace.guessed} branches guessed")
        return trace, notes
    notes.append("the loop could not be followed")
    return static_trace(program, loop), notes


def twice(cost):
    return dataclasses.replace(cost, latency=2 * cost.latency)


def flops_of(program, trace):
    return sum(program.instructions[at].flops for at, _ in trace.steps)


def peak_of(chip, dtype):
    """FLOPs of a SIMD in a cycle: the published peak for operands of the type and sums in f32."""
    eights = {"fp8", "bf8"} & set(chip.matrix)
    if dtype in ("f8e4m3", "f8e5m2") and not eights:
        return peak_of(chip, "f16")  # lanes widen them
    vector = chip.fma_flops / chip.simds
    if dtype == "f16":
        vector *= max(chip.packed_f16, 1)  # GP10x computes f16 faster as f32
    if dtype == "i8" and not {"i8", "iu8"} & set(chip.matrix):
        vector *= 4  # the sum of four products in one instruction
    others = {"tf32": ["xf32"], "i8": ["iu8"], "f8e4m3": eights, "f8e5m2": eights}
    names = (dtype, dtype + "_1k", *others.get(dtype, ()))
    return max(vector, *(rate for name, rate in chip.matrix.items() if name in names), 0)


def traced_loop(chip, program, text, extents):
    loop = pipeline_loop(program)
    trace, notes = trace_of(chip, program, loop, text, extents)
    if not loop:
        notes.append("no loop with arithmetic: the whole kernel")
    return Traced(loop, trace, fresh_share(chip, program, loop, text, extents, trace) if loop else 1.0,
                  groups_share(chip, program, loop, text, extents), notes)


def costs_of(chip, program, traced, groups):
    """The steps of an iteration with their costs, (instruction, addresses, cost), while so many groups run on the chip."""
    for at, addresses in traced.trace.steps:
        instruction = program.instructions[at]
        fresh = traced.fresh if instruction.kind == "global_read" else 1.0
        yield instruction, addresses, cost_of(chip, program, instruction, addresses, groups if traced.shared else 1, fresh)


def iterations_per_cycle(chip, steps, held, waves_of_group, busy):
    """Iterations of a SIMD in a cycle, on average. busy: cycles of each pipe with the waves of the fullest SIMD; others may
    hold a wave less, or none."""
    def rate(waves):
        if not waves:
            return 0
        least = max(busy.values()) * waves / held.waves
        return waves / max(simulate(chip, steps, waves, min(waves_of_group, waves))[0], least)
    fullest = held.mean - (held.waves - 1)  # the share of SIMDs that hold the most
    return fullest * rate(held.waves) + (1 - fullest) * (rate(held.waves - 1) if fullest < 1 else 0)


def predict(chip, program, text="", extents=None, dtype=None):
    """extents: of a group; dtype: the problem's type, if its peak is not that of the instructions."""
    if extents and not program.items:
        program.items = extents[0] * extents[1] * extents[2]
    extents = extents or (program.items or program.wave, 1, 1)
    held = occupancy(chip, program)
    traced = traced_loop(chip, program, text, extents)
    trace = traced.trace
    made = Prediction(program, held, collections.Counter(), notes=traced.notes, traced=traced)
    made.lost = "" if trace.whole else "; ".join(traced.notes)
    by_unit, by_dtype = collections.Counter(), collections.Counter()
    steps, unknown, local_cycles, local_extra = [], 0, 0.0, 0.0
    for instruction, addresses, cost in costs_of(chip, program, traced, held.groups * chip.units / chip.share_units):
        steps.append((instruction, cost))
        made.counts[instruction.kind] += 1
        made.integers += is_integer_arithmetic(instruction)
        made.flops += instruction.flops
        if instruction.flops:
            by_unit[instruction.kind] += instruction.flops
            by_dtype[instruction.dtype or "f32"] += instruction.flops
        if instruction.kind in ("local_read", "local_write"):
            made.local_bytes += instruction.bytes * program.wave
            local_cycles += cost.queued.get("local", 0)
            local_extra += cost.local_extra
            unknown += not cost.known
        if instruction.kind in ("global_read", "global_write", "copy"):
            made.global_bytes += cost.bytes
    if by_unit:
        made.unit, made.dtype = by_unit.most_common(1)[0][0], by_dtype.most_common(1)[0][0]
    made.conflicts = None if unknown else local_extra / local_cycles if local_cycles else 0.0
    if not held.waves:
        made.bound = "does not fit"
        return made
    waves_of_group = max(-(-program.items // program.wave) // (chip.simds * chip.share_units), 1)
    busy = collections.Counter()
    for _, cost in steps:
        for pipe, cycles in (*cost.issue.items(), *cost.queued.items()):
            busy[pipe] += cycles * held.waves
    simulated, waits = simulate(chip, steps, held.waves, waves_of_group)
    made.cycles = max([simulated, *busy.values()])
    by_text = collections.Counter()
    for step, share in waits.items():
        by_text[" ".join(steps[step][0].text.split())] += share
    made.waits = [(share, text) for text, share in by_text.most_common(5)]
    made.busy = {pipe: cycles / made.cycles for pipe, cycles in busy.items()}
    rate = made.flops * iterations_per_cycle(chip, steps, held, waves_of_group, busy)
    own = peak_of(chip, "i8" if dtype == "i8" else "f32")
    if made.unit == "matrix":
        whole = any("GMMA" in program.instructions[at].name for at, _ in trace.steps)
        own = chip.matrix[made.dtype] * (1.0 if whole else chip.mma_share)
    made.of_unit = rate / own
    made.share = rate / peak_of(chip, dtype or made.dtype)
    slow = [(one, twice(cost) if one.kind in MEMORY else cost) for one, cost in steps]
    slow_rate = made.flops * iterations_per_cycle(chip, slow, held, waves_of_group, busy)
    made.slow_share = made.share * min(slow_rate / rate, 1) if rate else 0.0
    first, most = max(made.busy.items(), key=lambda item: item[1])
    made.bound = NAMES.get(first, first) if most >= 0.9 else "waiting"
    return made
