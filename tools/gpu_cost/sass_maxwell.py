"""Reads machine code of NVIDIA's chips before sm_70 (Maxwell and Pascal).

Instructions have 64 bits. Each three follow a word with their scheduling information, in three fields like those of newer chips
(control_of). Two instructions in braces issue in the same cycle.
"""
import re

from .instruction import Program
from .sass import SECOND, is_label, one_instruction

# Of SYNC, BRK and CONT: where the SSY, PBK or PCNT before them says.
TARGETS = re.compile(r"\(\*\"BRANCH_TARGETS (\.[\w.$]+)\"\*\)")
LINE = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(\{\s+)?(.*?)\s*(?:;|(\}))\s*(?:/\* 0x[0-9a-f]{16} \*/)?\s*$")


def read(disassembly):
    """The instructions of nvdisasm's only function."""
    program, scheduling, code_follows = Program("kernel", "nvidia", [], {}), 0, False
    for line in disassembly.splitlines():
        found, word = LINE.search(line), SECOND.match(line)
        if is_label(line, program):
            continue
        if found:
            field = scheduling >> 21 * (int(found[1], 16) // 8 % 4 - 1) & 0x1FFFFF
            made = one_instruction(found[3], field << 41)
            made.control.paired = code_follows = bool(found[4])  # the code of a pair's second is on the next line
            if target := TARGETS.search(found[3]):
                made.kind, made.target, made.conditional = "branch", target[1], made.predicate is not None
            program.instructions.append(made)
        elif word:
            scheduling, code_follows = scheduling if code_follows else int(word[1], 16), False
    program.spills = sum(i.kind == "scratch" for i in program.instructions)
    return program
