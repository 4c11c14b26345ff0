"""Reads machine code of NVIDIA's chips before sm_70 (Maxwell and Pascal).

Instructions have 64 bits. Each three follow a word with their scheduling information, in three fields like those of newer chips
(control_of). Two instructions in braces issue in the same cycle.
"""
import re

from .instruction import Program
from .sass import LABEL, SECOND, one_instruction

LINE = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(\{\s+)?(.*?)\s*(?:;|(\}))\s*(?:/\* 0x[0-9a-f]{16} \*/)?\s*$")


def read(disassembly):
    """The instructions of nvdisasm's only function."""
    program, scheduling, second = Program("kernel", "nvidia", [], {}), 0, False
    for line in disassembly.splitlines():
        label, found, word = LABEL.match(line), LINE.search(line), SECOND.match(line)
        if label and label[1].startswith(".L"):
            program.labels[label[1]] = len(program.instructions)
        elif label and label[1].startswith(".text."):
            program.name = label[1][len(".text."):]
        elif found:
            field = scheduling >> 21 * (int(found[1], 16) // 8 % 4 - 1) & 0x1FFFFF
            program.instructions.append(one_instruction(found[3], field << 41))
            program.instructions[-1].control.paired = bool(found[4])
            second = bool(found[4])  # the next line has its code
        elif word:
            scheduling, second = scheduling if second else int(word[1], 16), False
    name_targets(program)
    program.spills = sum(i.kind == "scratch" for i in program.instructions)
    return program


def name_targets(program):
    """SYNC and BRK go where the SSY or PBK before them says; in the code, their regions contain each other."""
    regions = {"SSY": [], "PBK": []}
    for at, instruction in enumerate(program.instructions):
        base = instruction.name.split(".")[0]
        for region in regions.values():
            while region and program.labels.get(region[-1], at + 1) <= at:
                region.pop()
        if base in regions:
            regions[base].append(re.search(r"`\((\.[\w.$]+)\)", instruction.text)[1])
        elif base in ("SYNC", "BRK"):
            region = regions["SSY" if base == "SYNC" else "PBK"]
            instruction.kind, instruction.conditional = "branch", instruction.predicate is not None
            instruction.target = region[-1] if region else None
