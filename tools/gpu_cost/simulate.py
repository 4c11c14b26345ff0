"""Runs the waves of one SIMD through a loop, instruction by instruction, in order within a wave.

A wave issues when its operands are there (AMD: registers and counters; NVIDIA: by the instruction's control bits) and the
pipes that it needs are free; of several waves, the one that can issue first, and among these the one that has waited
longest. Parts that SIMDs share (local memory, caches) are busy for as long as all of them need, because all do the same.
"""
import collections
import re


class Wave:
    def __init__(self, number, group):
        self.number, self.group = number, group
        self.at = 0
        self.next = 0.0                      # the earliest cycle of its next instruction
        self.allowed = None                  # the same, considering operands and counters; None: not computed yet
        self.ready = {}                      # AMD: register -> cycle
        self.counters = collections.defaultdict(list)  # AMD: counter -> completions, in order
        self.barriers = [0.0] * 6            # NVIDIA: barrier -> the cycle at which it is clear
        self.queues = collections.defaultdict(list)    # NVIDIA: groups of asynchronous work
        self.copies = 0.0
        self.waits_since = None              # the cycle when it arrived at a barrier of the group


def simulate(chip, steps, waves, waves_of_group):
    """The cycles in which each wave issues the instructions of one iteration, on average, and the share of its time that a
    wave waits at each of its steps. `steps` are (instruction, cost)."""
    # Steps of a whole kernel, whose loop was not found, are many and need no repetition.
    warm, least = (2, 8) if len(steps) < 6000 else (0, 1)
    iterations = min(max(least, 6000 // (len(steps) * waves)), 200)
    flock = [Wave(number, number // max(waves_of_group, 1)) for number in range(waves)]
    free = collections.defaultdict(float)
    amd = chip.vendor == "amd"
    earliest = amd_earliest if amd else nvidia_earliest
    last = None
    began = 0.0
    waited = collections.Counter()
    turn = waves * len(steps)
    for issued in range((iterations + warm) * turn):
        best, best_at = None, None
        for wave in flock:
            if wave.waits_since is not None:
                continue
            instruction, cost = steps[wave.at]
            if wave.allowed is None:
                wave.allowed = earliest(wave, instruction)
            at = wave.allowed
            for pipe in cost.issue:
                if free[pipe] > at:
                    at = free[pipe]
            # NVIDIA: continues with the same warp, then the youngest (Huerta et al., arXiv:2503.20481). AMD: the oldest.
            if best is None or at < best_at or (at == best_at and not amd and best is not last):
                best, best_at = wave, at
        if best is None:
            raise ValueError("the waves of a group wait for each other at different barriers")
        instruction, cost = steps[best.at]
        best.allowed, last = None, best
        if issued >= warm * turn:
            waited[best.at] += best_at - best.next
        for pipe, cycles in cost.issue.items():
            free[pipe] = best_at + cycles
        done = best_at
        for pipe, cycles in cost.queued.items():
            start = max(best_at, free[pipe])
            free[pipe] = start + cycles
            done = max(done, start + cycles)
        done += cost.latency
        (amd_issue if amd else nvidia_issue)(chip, best, instruction, best_at, done)
        if instruction.kind == "barrier":
            best.waits_since = best_at
            partners = [wave for wave in flock if wave.group == best.group]
            if all(wave.waits_since is not None for wave in partners):
                opens = max(wave.waits_since for wave in partners) + cost.latency
                for wave in partners:
                    if issued >= warm * turn:
                        waited[(best.at if wave is best else wave.at - 1) % len(steps)] += opens - wave.waits_since
                    wave.waits_since, wave.allowed, wave.next = None, None, max(wave.next, opens)
        best.at = (best.at + 1) % len(steps)
        if issued == warm * turn - 1:
            began = best_at
    waves_time = (best_at - began) * waves
    return (best_at - began) / iterations, {step: cycles / waves_time for step, cycles in waited.items()}


def amd_earliest(wave, instruction):
    at = wave.next
    for register in instruction.reads | instruction.writes:
        at = max(at, wave.ready.get(register, 0.0))
    for counter, most in instruction.waits.items():
        under_way = wave.counters[counter]
        if len(under_way) > most:
            at = max(at, max(under_way[:len(under_way) - most]))
    return at


def amd_issue(chip, wave, instruction, at, done):
    silent = instruction.kind in ("free", "wait")
    wave.next = at + (0 if silent else chip.issue)
    for counter, most in instruction.waits.items():
        under_way = wave.counters[counter]
        del under_way[:max(len(under_way) - most, 0)]
    if instruction.counter:
        wave.counters[instruction.counter].append(done)
    elif instruction.kind == "branch":
        wave.next = done
    else:
        for register in instruction.writes:
            wave.ready[register] = done


def nvidia_earliest(wave, instruction):
    at = wave.next
    for barrier in instruction.control.wait:
        at = max(at, wave.barriers[barrier])
    queue, most = depbar(instruction)
    if queue and len(wave.queues[queue]) > most:
        at = max(at, max(wave.queues[queue][:len(wave.queues[queue]) - most]))
    return at


def depbar(instruction):
    """The queue that an instruction waits for, and how many may stay in it."""
    if "DEPBAR.LE" not in instruction.name:
        return None, 0
    found = re.search(r"(SB\d|gsb\d),\s*(0x[0-9a-f]+|\d+)", instruction.text)
    return (found[1], int(found[2], 0)) if found else (None, 0)


def nvidia_issue(chip, wave, instruction, at, done):
    control = instruction.control
    wave.next = at + max(control.stall, 0 if chip.before_volta else 1)
    queue, most = depbar(instruction)
    if queue:
        under_way = wave.queues[queue]
        del under_way[:max(len(under_way) - most, 0)]
    if instruction.kind == "copy":
        wave.copies = max(wave.copies, done)
    if instruction.name.startswith("LDGDEPBAR"):
        wave.queues[f"SB{control.write_barrier or 0}"].append(wave.copies)
        return
    asynchronous = re.search(r"\bgsb\d", instruction.text) if instruction.kind == "matrix" else None
    if asynchronous:
        wave.queues[asynchronous[0]].append(done)
    if control.write_barrier is not None:
        if chip.before_volta:  # every instruction with a barrier counts for DEPBAR
            wave.queues[f"SB{control.write_barrier}"].append(done)
        wave.barriers[control.write_barrier] = max(wave.barriers[control.write_barrier], done)
    if control.read_barrier is not None:
        wave.barriers[control.read_barrier] = max(wave.barriers[control.read_barrier], at + 12)
