"""Runs NVIDIA's integer instructions for the lanes of a group's first warp."""
import re

from .maxwell_arithmetic import MaxwellArithmetic
from .rates import number_of
from .sass_arithmetic import Arithmetic
from .walk import MASK, Addresses, address_of_argument, each, lane_list, signed

# Where kernel parameters begin in bank 0, by the chip's generation; later 0x380.
PARAMETERS = {5: 0x140, 6: 0x140, 7: 0x160, 8: 0x160, 9: 0x210}
LANES = 32
RESULTS = {"IADD3": 3, "LEA": 2, "ISETP": 2, "PLOP3": 2, "PSETP": 2, "IMAD": 2}  # instructions with predicates after their first result
FLOATS = re.compile(r"[FHD](ADD|MUL|FMA|SET|MNMX|SEL|CMP|CHK|RND|2)|MUFU|I2F|F2|R2P|P2R|VOTE|SHFL|BAR|NOP|B(SSY|SYNC|MOV|REAK)|DEPBAR|LDGDEPBAR|WARP|.*MMA|"
                    r"SSY|PBK|PCNT|CAL|RRO|MEMBAR|ERRBAR|CCTL|YIELD|SYNCS|FENCE|ACQ|PREEXIT|ATOM|RED|LEPC")


class Machine(Arithmetic):
    sets_flag = ()  # the instructions whose do_NAME keeps the flag CC

    def __init__(self, program, extents, chip, first=0, group=0):
        x, y, z = extents
        items = range(first, first + LANES)
        self.constants = program.constants
        self.extents = extents
        self.parameters = PARAMETERS.get(number_of(chip) // 10, 0x380)
        self.special = {"SR_TID.X": [n % x for n in items], "SR_TID.Y": [n // x % y for n in items],
                        "SR_TID.Z": [n // (x * y) % z for n in items], "SR_LANEID": list(range(LANES)), "SRZ": 0, "SR_CgaCtaId": 0,
                        "SR_CTAID.X": group, "SR_CTAID.Y": 0, "SR_CTAID.Z": 0}
        self.special["SR_TID"] = each(lambda a, b, c: a | b << 16 | c << 26, *(self.special[f"SR_TID.{d}"] for d in "XYZ"))
        self.registers = {}
        self.predicates = {}
        self.active = [1] * LANES
        self.missing = set()  # integer instructions that were met but are not implemented here

    # ---- Operands ----

    def constant(self, offset):
        """A constant of bank 0: the group's extents, and pointers; the rest is not known."""
        if offset >= self.parameters:
            return address_of_argument((offset - self.parameters) // 4)
        first = 8 if self.parameters == 0x140 else 0
        if self.parameters != 0x380 and first <= offset < first + 12:
            return self.extents[(offset - first) // 4]
        return 0 if offset in (0x20, 0x28, 0x37c) else None  # the stack

    def read(self, operand):
        operand = operand.replace(".reuse", "").strip()
        if operand.startswith("-") and not re.fullmatch(r"-(0x[0-9a-f]+|\d+)", operand):
            return each(lambda a: -a & MASK, self.read(operand[1:]))
        if operand.startswith("~"):
            return each(lambda a: ~a & MASK, self.read(operand[1:]))
        if operand.startswith("|"):
            return each(lambda a: abs(signed(a)), self.read(operand[1:-1]))
        if re.fullmatch(r"U?RZ(\.\w+)?", operand) or operand == "SRZ":
            return 0
        found = re.fullmatch(r"(U?R\d+)(\.[\w.]+)?", operand)
        if found:
            return None if found[2] not in (None, ".U32", ".64", ".X4", ".X8", ".X16") else self.registers.get(found[1])
        found = re.fullmatch(r"c\[0x([0-4])\] ?\[(0x[0-9a-f]+)\]", operand)
        if found:
            at = int(found[2], 0)
            if found[1] == "0":
                return self.constant(at)
            held = self.constants.get(int(found[1]), b"")
            return int.from_bytes(held[at:at + 4], "little") if at + 4 <= len(held) else None
        try:
            return int(operand, 0) & MASK
        except ValueError:
            return None

    def truth(self, operand):
        operand = operand.strip()
        negated, name = operand.startswith("!"), operand.lstrip("!")
        value = 1 if name in ("PT", "UPT") else self.predicates.get(name)
        return each(lambda a: 1 - a, value) if negated else value

    def write(self, operand, value, when=1):
        name = operand.split(".")[0].strip()
        if re.fullmatch(r"U?R\d+", name):
            self.registers[name] = self.kept(self.registers.get(name), value, when)
        elif re.fullmatch(r"U?P\d", name):
            self.predicates[name] = self.kept(self.predicates.get(name), value, when)

    def kept(self, old, new, when):
        """`new` in the lanes where the predicate holds, otherwise `old`."""
        if isinstance(when, int) and when and all(self.active):
            return new
        if when is None:
            return None
        rows = zip(lane_list(old, LANES), lane_list(new, LANES), lane_list(when, LANES), self.active)
        made = [(None if w is None else n if w and a else o) for o, n, w, a in rows]
        return made

    # ---- Instructions ----

    def run(self, instruction):
        """(whether a branch is taken, or None; Addresses or None)."""
        if instruction.predicate in ("!PT", "!UPT"):
            return None, None
        when = self.truth(instruction.predicate) if instruction.predicate else 1
        kind = instruction.kind
        if kind in ("branch", "end"):
            operands = [o for o in instruction.operands if re.fullmatch(r"!?U?P\w+", o)]
            for operand in operands if kind == "branch" else ():
                when = each(lambda a, b: a & b, when, self.truth(operand))
            if any(o.startswith("CC.") for o in instruction.operands):  # before sm_70: also a condition on the flag
                when = each(lambda a: None if a else 0, when)
            return self.decide(when, kind), None
        if kind in ("local_read", "local_write", "global_read", "global_write", "copy", "scratch"):
            addresses = self.addresses(instruction, when)
            if kind.endswith("read") or kind == "scratch":
                self.forget(instruction)
            return None, addresses
        if kind == "shuffle":
            self.forget(instruction)
        else:
            self.compute(instruction, when)
        return None, None

    def decide(self, when, kind):
        """A warp that diverges continues as its first lane; the lanes that differ are left out from then on."""
        if when is None:
            return None
        if isinstance(when, int):
            return bool(when)
        rows = [w for w, a in zip(when, self.active) if a]
        if None in rows:
            return None
        if len(set(rows)) == 1:
            return bool(rows[0])
        return False if kind == "end" else bool(rows[0])

    def forget(self, instruction):
        if not instruction.operands:
            return
        name = instruction.operands[0].split(".")[0]
        found = re.fullmatch(r"(U?R)(\d+)", name)
        if found:
            count = max(instruction.bytes // 4, 1) if instruction.bytes else 4 if instruction.kind == "matrix" else 1
            if instruction.name.endswith(".64") or "WIDE" in instruction.name:
                count = 2
            for number in range(int(found[2]), int(found[2]) + count):
                self.registers[f"{found[1]}{number}"] = None
        for operand in instruction.operands[:2]:
            if re.fullmatch(r"U?P\d", operand):
                self.predicates[operand] = None

    def compute(self, instruction, when):
        parts = instruction.name.split(".")
        base = parts[0]
        base = base[1:] if base.startswith("U") and base not in ("UMOV_",) else base
        operation = getattr(self, "do_" + base, None)
        if operation is None:
            if not FLOATS.match(instruction.name):
                self.missing.add(instruction.name)
            return self.forget(instruction)
        operands = instruction.operands
        results, rest = operands[:1], operands[1:]
        if base in ("LOP3", "LOP") and re.fullmatch(r"U?P[\dT]", results[0]):  # its first result tells whether the second is not 0
            results.insert(0, rest.pop(0))
        for _ in range(RESULTS.get(base, 1) - 1):
            if rest and re.fullmatch(r"U?P[\dT]", rest[0]):
                results.append(rest.pop(0))
        values = operation(parts, rest, operands)
        if operands[0].endswith(".CC") and (values is None or base not in self.sets_flag):
            self.predicates["CC"] = self.predicates["CC.Z"] = None
        if values is None:
            return self.forget(instruction)
        for result, value in zip(results, values):
            self.write(result, value, when)
        return None

    def do_ELECT(self, _parts, _rest, _operands):
        first = self.active.index(1)
        return [[int(lane == first) for lane in range(LANES)]]

    def do_SYNCS(self, parts, _rest, _operands):
        return [1] if "PHASECHK" in parts else None  # the awaited data has arrived

    # ---- Addresses ----

    def addresses(self, instruction, when):
        """Low 32 bits: a buffer's lanes lie within 4 GiB."""
        inside = [o for o in instruction.operands if "[" in o and not o.startswith(("c[", "gdesc"))]
        local = globals_ = None
        if instruction.name.startswith("LDGSTS"):
            local, globals_ = self.address(inside[0]), self.address(inside[1])
        elif instruction.kind.startswith("local"):
            local = self.address(inside[0]) if inside else None
        elif inside:
            globals_ = self.address(inside[0])
        count = 32
        if instruction.name.startswith("LDSM"):
            count = min(8 * instruction.bytes // 4, 32)

        def lanes(value):
            if value is None or when is None:
                return None
            rows = zip(lane_list(value, LANES), lane_list(when, LANES), self.active)
            made = [one if w and a and n < count else None for n, (one, w, a) in enumerate(rows)]
            return made if any(one is not None for one in made) else None
        local, globals_ = lanes(local), lanes(globals_)
        return Addresses(local, globals_) if local or globals_ else None

    def address(self, operand):
        text = re.sub(r"^desc\[\w+\]", "", operand)
        found = re.search(r"\[(.*)\]", text)
        if not found:
            return None
        total = 0
        for sign, part in re.findall(r"(^|[+-])\s*([^+-]+)", found[1]):
            scale = re.search(r"\.X(4|8|16)$", part)
            value = self.read(part)
            factor = (int(scale[1]) if scale else 1) * (-1 if sign == "-" else 1)
            total = each(lambda a, b: a + b * factor, total, value)
        return each(lambda a: a & MASK, total)


class MaxwellMachine(MaxwellArithmetic, Machine):
    """For chips before sm_70."""

    sets_flag = ("IADD", "IADD32I", "IADD3", "ISCADD", "ISCADD32I", "LEA")
