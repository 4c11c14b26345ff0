"""A kernel's machine code, as both readers return it."""
import dataclasses
import functools
import re


@dataclasses.dataclass
class Control:
    """The scheduling information of an NVIDIA instruction."""
    stall: int = 1                # cycles until the warp's next instruction
    write_barrier: int | None = None  # set until the result is there
    read_barrier: int | None = None   # set until the operands are read
    wait: tuple = ()              # barriers that must be clear before it
    reuse: int = 0                # operands that stay in the reuse cache
    paired: bool = False          # before sm_70: issues in the same cycle as the one before it


@dataclasses.dataclass
class Instruction:
    name: str                     # "v_fma_f32", "HMMA.16816.F32"
    operands: list[str]
    # matrix, fma, vector (other arithmetic of lanes), transcendental, scalar, scalar_load, local_read, local_write, shuffle,
    # global_read, global_write, copy (global to local), scratch, barrier, wait, branch, end, free
    kind: str
    text: str = ""
    flops: int = 0                # of the whole wave
    dtype: str = ""               # the type that a matrix instruction multiplies
    bytes: int = 0                # read or written by a lane
    target: str | None = None     # of a branch
    conditional: bool = False
    writes: frozenset = frozenset()
    reads: frozenset = frozenset()
    counter: str | None = None    # AMD: the counter that it increments until it is done
    waits: dict = dataclasses.field(default_factory=dict)  # AMD: counter -> how many may be under way
    control: Control | None = None
    predicate: str | None = None  # NVIDIA: "P0", "!P0"
    parts: tuple = ()             # AMD: the two halves of a dual instruction


# Arithmetic with integers, without moves and without putting elements together: addresses, counters, comparisons of them.
AMD_INTEGERS = re.compile(r"[vs]_(?!mov|perm|pack|cndmask|cselect|cvt|wait|swap|bfi|align|read|write)\w+_[iub](16|24|32|64)(_e32|_e64)?$|v_\w*_co_\w+$")
NVIDIA_INTEGERS = re.compile(
    r"U?(V?IADD\w*|IMAD|IMUL\w*|V?IMNMX\w*|ISCADD|LEA|LOP3?|SHF|SHL|SHR|BFE|ISETP|XMAD|IABS)\b")


def is_integer_arithmetic(instruction):
    """Whether it computes an address, a counter or a comparison of such, as far as its name tells."""
    name = instruction.name
    return instruction.kind in ("vector", "scalar") and ".MOV" not in name and bool(AMD_INTEGERS.match(name) or NVIDIA_INTEGERS.match(name))


@dataclasses.dataclass
class Program:
    name: str
    vendor: str                   # amd, nvidia
    instructions: list[Instruction]
    labels: dict                  # name -> index of an instruction
    wave: int = 32                # lanes
    registers: int = 0            # of a lane
    scalars: int = 0
    spills: int = 0               # registers (AMD), loads and stores (NVIDIA)
    scratch: int = 0              # bytes of a lane
    local: int = 0                # bytes of a group
    items: int = 0                # of a group; 0: not known
    box_bytes: float = 0          # that a copy of a box moves, of which each wave takes a part
    constants: dict = dataclasses.field(default_factory=dict)  # NVIDIA: banks that the compiler filled -> bytes

    @functools.cached_property
    def targets(self):
        """For each instruction, the index of the one that it branches to."""
        return [self.labels.get(i.target) if i.target else None for i in self.instructions]

    def successors(self, at):
        instruction = self.instructions[at]
        if instruction.kind == "end":
            return [at + 1] if instruction.conditional and at + 1 < len(self.instructions) else []
        after = [at + 1] if at + 1 < len(self.instructions) else []
        if instruction.kind != "branch":
            return after
        target = self.targets[at]
        jump = [] if target is None else [target]
        return after + jump if instruction.conditional else jump
