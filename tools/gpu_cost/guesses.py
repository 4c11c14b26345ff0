"""How good first guesses are: the predicted times of all candidates of a problem of training."""
import collections
import dataclasses
import math
import statistics
import types

from . import rates
from .costs import cost_of
from .kernels import Source
from .predict import costs_of
from .simulate import simulate

CANDIDATES = 4  # of a problem, at most
LAUNCH = 2e-6   # seconds from one launch to the next: guess


@dataclasses.dataclass
class Launch:
    """A launch of a candidate, as `write_candidates FOLDER LANGUAGE guesses` lists it."""
    entry: dict
    source: Source

    @property
    def multiplies(self):
        """Whether it computes products; others move and add what lies in memory."""
        return self.entry["launch"] != "gemm_sum" and self.entry["launch"].startswith(("gemm", "conv_"))

    def flops_of_group(self):
        """With those of a tile that reach past the result."""
        entry, about = self.entry, self.entry["parameters"]
        k = entry["k"] // (9 if "outputs" in about else 1)  # Winograd's products have one for all 3 x 3 taps
        if about.get("streams"):
            return 2 * entry["batch"] * entry["m"] * entry["n"] * k / about["streams"]
        if "tile_m" in about:
            part = math.ceil(k / about["splits"] / about["tile_k"]) * about["tile_k"]
            return 2 * about["tile_m"] * about["tile_n"] * part
        if "subtiles" in about:
            rows = about["rows"] * about["group_y"] * about["subtiles"]
            return 2 * rows * about["vectors"] * about["width"] * about["group_x"] * k / about["splits"]
        return 2 * entry["batch"] * entry["m"] * entry["n"] * k / entry["groups"]


def busier(chip, active):
    """The chip as its busy units see it if only a share of them are: they have its L2 and memory for themselves."""
    at_most = chip.l1_bytes_cycle
    return types.SimpleNamespace(**vars(chip) | {"l2_bytes_cycle": min(chip.l2_bytes_cycle / active, at_most),
                                                 "memory_bytes_cycle": min(chip.memory_bytes_cycle / active, at_most)})


def cycles_of(chip, program, steps, groups):
    """Cycles in which the groups of a unit run through the steps."""
    if not steps:
        return 0
    group = max(-(-program.items // program.wave), 1)
    simds = chip.simds * chip.share_units
    waves = math.ceil(groups * group / simds)
    busy = collections.Counter()
    for _, cost in steps:
        for pipe, cycles in (*cost.issue.items(), *cost.queued.items()):
            busy[pipe] += cycles * waves
    return max(simulate(chip, steps, waves, min(max(group // simds, 1), waves))[0], *busy.values())


def cycles_of_round(chip, made, iterations, running, units):
    """Cycles in which so many groups of the chip run from their start to their end."""
    program, loop = made.program, made.traced.loop
    groups = math.ceil(running / units)
    chip = busier(chip, min(running / units, 1))
    body = [(instruction, cost) for instruction, _, cost in costs_of(chip, program, made.traced, running)]
    # The loop's arithmetic may also be in front of it and behind it; `iterations` counts it there.
    outside = [(one, cost_of(chip, program, one, None, running)) for at, one in enumerate(program.instructions)
               if loop and at not in loop.body and one.kind not in (made.unit, "end", "branch")]
    return iterations * cycles_of(chip, program, body, groups) + cycles_of(chip, program, outside, groups)


def seconds_of(chip, made, groups, flops):
    """The time of a launch: rounds of groups, of which the last may leave room."""
    waves = -(-made.program.items // made.program.wave)
    iterations = flops / (made.flops * waves)
    units = chip.units / chip.share_units
    full, rest = divmod(groups, int(made.occupancy.groups * units))
    cycles = full and full * cycles_of_round(chip, made, iterations, made.occupancy.groups * units, units)
    return (cycles + (rest and cycles_of_round(chip, made, iterations, rest, units))) / chip.clock


def candidate_seconds(chip, launches):
    """The predicted time of a candidate. Throws ValueError if a kernel cannot be read."""
    chip, name = rates.chip(chip), chip
    bandwidth = chip.memory_bytes_cycle * chip.units * chip.clock
    seconds = 0
    for launch in filter(lambda one: one.multiplies, launches):
        made = launch.source.prediction(name)
        if not made.flops or not made.occupancy.groups:
            raise ValueError("no loop with arithmetic" if made.occupancy.groups else "does not fit")
        seconds += seconds_of(chip, made, launch.entry["groups"], launch.flops_of_group())
    # The problem's operands move at least once. Scratch memory is written by one launch and read by another.
    about = launches[0].entry
    return max(seconds, about["bytes"] / bandwidth) + 2 * about["scratch_bytes"] / bandwidth + LAUNCH * len(launches)


@dataclasses.dataclass
class Guess:
    problem: str
    dtype: str
    times: list      # (seconds, candidate's name), in the product's order
    findings: list   # candidates that could not be predicted

    @property
    def best(self):
        return min(self.times)

    @property
    def regret(self):
        """How much longer than the best the first guess takes."""
        return self.times[0][0] / self.best[0] - 1


def problems_of(folder, listing, title):
    """(problem, dtype, its first candidates), each of them a list of launches."""
    problems = collections.defaultdict(lambda: collections.defaultdict(list))
    for entry in listing:
        if entry["candidate"] < CANDIDATES:
            source = Source(folder / entry["file"], title(entry["kernel"]), entry["dtype"], entry["local_bytes"])
            problems[entry["problem"], entry["dtype"]][entry["candidate"]].append(Launch(entry, source))
    return [(*problem, list(candidates.values())) for problem, candidates in problems.items()]


def guess(chip, problem, dtype, candidates):
    made = Guess(problem, dtype, [], [])
    for launches in candidates:
        title, seconds = launches[0].source.title, math.inf
        try:
            seconds = candidate_seconds(chip, launches)
        except ValueError as error:
            made.findings.append(f"{problem} in {dtype}, {title}: {error}")
        made.times.append((seconds, title))
    return made


def print_guesses(chip, guesses):
    print(f"\n{rates.chip(chip).card}, {chip}\n{'problem':16} {'type':4} {'first guess':40} {'µs':>8}  {'best':40} {'µs':>8} {'regret':>6}")
    guesses = [one for one in guesses if math.isfinite(one.times[0][0])]
    for one in guesses:
        (first, name), (best, other) = one.times[0], one.best
        print(f"{one.problem:16} {one.dtype:4} {name[:40]:40} {1e6 * first:8.1f}  {other[:40] if one.regret else '':40} {1e6 * best:8.1f} {100 * one.regret:5.0f}%")
    regrets = [one.regret for one in guesses]
    if regrets:
        print(f"{len(regrets)} problems: regret {100 * statistics.median(regrets):.1f} % in the median, {100 * statistics.mean(regrets):.1f} % on average, "
              f"{100 * max(regrets):.0f} % at most; above 10 %: {sum(one > 0.1 for one in regrets)}")
