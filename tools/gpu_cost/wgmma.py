"""Looks for registers of A that ptxas gives to other values while wgmma still needs them.

Ptxas 12.4, 12.9 and 13.0 forget that an asynchronous multiplication reads a register again in the next round of a loop, if
nothing else reads it there: attention's own rows, which are loaded once, before the loop.
"""
import re

from .loops import find_loops

# Their first operand is not a result.
NO_RESULT = re.compile(r"ST|BAR|BRA|RED|LDGSTS|WARPGROUP|DEPBAR|EXIT|ISETP|FSETP|PLOP3|CALL|RET|U")


def registers_of(operand, count):
    found = re.match(r"R(\d+)\b", operand)
    return range(int(found[1]), int(found[1]) + count) if found else range(0)


def results(instruction):
    """The registers that it writes."""
    name = instruction.name
    if not instruction.operands or NO_RESULT.match(name):
        return range(0)
    if "GMMA" in name:
        count = int(re.search(r"x(\d+)x", name)[1]) // 2
    elif name.startswith("LDSM"):
        count = int((re.search(r"\.([24])(\.|$)", name) or (0, 1))[1])
    elif name == "CS2R":
        count = 2
    else:
        count = 4 if ".128" in name else 2 if ".64" in name or ".WIDE" in name else 1
    first = 1 if name.startswith("SHFL") else 0  # whose first result is a predicate
    return registers_of(instruction.operands[first], count)


def forgotten_factors(program):
    """Multiplications in a loop whose A is loaded before the loop, and then overwritten in it: their texts."""
    found = {}
    for loop in find_loops(program) if program.vendor == "nvidia" else ():
        body = loop.ordered()
        multiplications = [at for at in body if "HGMMA" in program.instructions[at].name
                           and program.instructions[at].operands[1].startswith("R")]
        if not multiplications:
            continue
        loaded, written = {}, {}  # register -> whether LDSM wrote it last, before the loop; where it is written in it
        for instruction in program.instructions[:loop.header]:
            for register in results(instruction):
                loaded[register] = instruction.name.startswith("LDSM")
        for at in body:
            for register in results(program.instructions[at]):
                written.setdefault(register, []).append(at)
        for at in multiplications:
            for register in registers_of(program.instructions[at].operands[1], 4):
                if loaded.get(register) and register in written and min(written[register]) > at:
                    found[at] = program.instructions[at].text
    return list(found.values())
