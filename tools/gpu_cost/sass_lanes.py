"""What NVIDIA's integer instructions do, for the lanes of a group's first warp."""
import re
import struct

from .walk import MASK, Addresses, each, lane_list, signed

COMPARE = {"EQ": lambda a, b: a == b, "NE": lambda a, b: a != b, "LT": lambda a, b: a < b, "LE": lambda a, b: a <= b,
           "GT": lambda a, b: a > b, "GE": lambda a, b: a >= b, "T": lambda a, b: True, "F": lambda a, b: False}
PARAMETERS = {7: 0x160, 8: 0x160, 9: 0x210}  # where kernel parameters begin in bank 0, by the chip's generation; later 0x380
LANES = 32
RESULTS = {"IADD3": 3, "LEA": 2, "ISETP": 2, "PLOP3": 2, "IMAD": 2}  # instructions with predicates behind their first result
FLOATS = re.compile(r"[FHD](ADD|MUL|FMA|SET|MNMX|SEL|CHK|RND|2)|MUFU|I2F|F2|R2P|P2R|VOTE|SHFL|BAR|NOP|B(SSY|SYNC|MOV|REAK)|DEPBAR|LDGDEPBAR|WARP|.*MMA|"
                    r"MEMBAR|ERRBAR|CCTL|YIELD|SYNCS|FENCE|ACQ|PREEXIT|ATOM|RED|LEPC")


def lop3(a, b, c, table):
    made = 0
    for n in range(8):
        if table >> n & 1:
            made |= (a if n & 4 else ~a) & (b if n & 2 else ~b) & (c if n & 1 else ~c)
    return made & MASK


def permute(a, b, selector):
    both, made = a | b << 32, 0
    for n in range(4):
        one = selector >> 4 * n
        byte = both >> 8 * (one & 7) & 255
        made |= (255 if one & 8 and byte & 128 else 0 if one & 8 else byte) << 8 * n
    return made


class Machine:
    def __init__(self, program, extents, chip):
        x, y, z = extents
        self.constants = program.constants
        self.extents = extents
        self.parameters = PARAMETERS.get(int(re.sub(r"\D", "", chip)) // 10, 0x380)
        self.special = {"SR_TID.X": [n % x for n in range(LANES)], "SR_TID.Y": [n // x % y for n in range(LANES)],
                        "SR_TID.Z": [n // (x * y) % z for n in range(LANES)], "SR_LANEID": list(range(LANES)), "SRZ": 0, "SR_CgaCtaId": 0}
        self.special["SR_TID"] = each(lambda a, b, c: a | b << 16 | c << 26, *(self.special[f"SR_TID.{d}"] for d in "XYZ"))
        self.registers = {}
        self.predicates = {}
        self.active = [1] * LANES
        self.missing = set()  # integer instructions that were met and are not known here

    # ---- Operands ----

    def constant(self, offset):
        """Of bank 0: the group's extents, and pointers as multiples of 256; the rest is not known."""
        if offset >= self.parameters:
            at = (offset - self.parameters) // 4
            return (at // 2 + 1) << 8 if at % 2 == 0 else 0
        if self.parameters != 0x380 and offset < 12:
            return self.extents[offset // 4]
        return 0 if offset in (0x28, 0x37c) else None

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
        found = re.fullmatch(r"c\[0x([0-4])\]\[(0x[0-9a-f]+)\]", operand)
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
        """New where the predicate holds."""
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
        when = self.truth(instruction.predicate) if instruction.predicate else 1
        kind = instruction.kind
        if kind in ("branch", "end"):
            operands = [o for o in instruction.operands if re.fullmatch(r"!?U?P\w+", o)]
            for operand in operands if kind == "branch" else ():
                when = each(lambda a, b: a & b, when, self.truth(operand))
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
        """A warp that parts goes on with its first lane's way; the others wait and are left out from then on."""
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
        if base == "LOP3" and re.fullmatch(r"U?P[\dT]", results[0]):  # its first result says whether the second is not 0
            results.insert(0, rest.pop(0))
        for _ in range(RESULTS.get(base, 1) - 1):
            if rest and re.fullmatch(r"U?P[\dT]", rest[0]):
                results.append(rest.pop(0))
        values = operation(parts, rest, operands)
        if values is None:
            return self.forget(instruction)
        for result, value in zip(results, values):
            self.write(result, value, when)
        return None

    def do_MOV(self, parts, rest, operands):
        if "64" in parts:
            self.write(self.next_register(operands[0]), self.read(self.next_register(rest[0])))
        return [self.read(rest[0])]

    do_MOV32I = do_MOV

    def do_HFMA2(self, parts, rest, operands):
        """ptxas moves constants as two halves: HFMA2 R1, -RZ, RZ, 0, 2.4e-07."""
        if not all("RZ" in o for o in rest[:2]) or len(rest) < 4:
            return None
        high, low = (struct.unpack("<H", struct.pack("<e", float(o)))[0] for o in rest[2:4])
        return [high << 16 | low]

    def do_CS2R(self, parts, rest, operands):
        value = 0 if rest[0] == "SRZ" else None
        name = operands[0]
        self.write(re.sub(r"(\d+)", lambda m: str(int(m[1]) + 1), name), value)
        return [value]

    def do_S2R(self, parts, rest, operands):
        return [0 if rest[0].startswith("SR_CTAID") else self.special.get(rest[0])]

    do_S2UR = do_S2R

    def do_R2UR(self, parts, rest, operands):
        value = self.read(rest[-1])
        return [value[0] if isinstance(value, list) else value]

    def do_LDC(self, parts, rest, operands):
        found = re.search(r"\[(?:U?RZ\+?)?(0x[0-9a-f]+)?\]$", rest[0])
        if not found or not rest[0].startswith("c[0x0]"):
            return None
        at = int(found[1] or "0", 0)
        count = {"64": 2, "128": 4}.get(parts[-1], 1)
        kind, number = re.fullmatch(r"(U?R)(\d+)", operands[0]).groups() if re.fullmatch(r"U?R\d+", operands[0]) else ("R", "250")
        for n in range(1, count):
            self.write(f"{kind}{int(number) + n}", self.constant(at + 4 * n))
        return [self.constant(at)]

    do_LDCU = do_LDC

    def do_IADD3(self, parts, rest, operands):
        values = [self.read(o) for o in rest[:3]]
        if "64" in parts:
            return None
        carries = [self.truth(o) for o in rest[3:5]] if "X" in parts else []
        total = each(lambda *v: sum(v), *values, *carries)
        return [each(lambda t: t & MASK, total), each(lambda t: int(t > MASK), total), 0]

    def do_IADD(self, parts, rest, operands):
        if "64" in parts:
            wide = [each(lambda a, h: a | h << 32, self.read(o), self.read(self.next_register(o)) if "R" in o else 0) for o in rest[:2]]
            total = each(lambda a, b: a + b, *wide)
            self.write(self.next_register(operands[0]), each(lambda v: v >> 32 & MASK, total))
            return [each(lambda v: v & MASK, total)]
        return [each(lambda a, b: a + b & MASK, self.read(rest[0]), self.read(rest[1]))]

    def do_VIADD(self, parts, rest, operands):
        return self.do_IADD(parts, rest, operands)

    def do_IMAD(self, parts, rest, operands):
        a, b, c = (self.read(o) for o in rest[:3])
        is_unsigned = "U32" in parts
        if "WIDE" in parts:
            high = self.read(self.next_register(rest[2]))
            fix = (lambda v: v) if is_unsigned else signed
            made = each(lambda x, y, z, h: fix(x) * fix(y) + (z | h << 32) & 0xFFFFFFFFFFFFFFFF, a, b, c, 0 if high is None else high)
            self.write(self.next_register(operands[0]), each(lambda v: v >> 32, made))
            return [each(lambda v: v & MASK, made)]
        if "HI" in parts:
            fix = (lambda v: v) if is_unsigned else signed
            return [each(lambda x, y, z: (fix(x) * fix(y) >> 32) + z & MASK, a, b, c)]
        carry = self.truth(rest[3]) if "X" in parts and len(rest) > 3 else 0
        return [each(lambda x, y, z, k: x * y + z + k & MASK, a, b, c, carry)]

    def next_register(self, operand):
        return re.sub(r"R(\d+)", lambda m: f"R{int(m[1]) + 1}", operand.split(".")[0]) if "RZ" not in operand else operand

    def do_LEA(self, parts, rest, operands):
        if "HI" in parts:
            shift = next((int(o, 0) for o in rest[2:] if re.fullmatch(r"0x[0-9a-f]+", o)), None)
            low, add, high = self.read(rest[0]), self.read(rest[1]), self.read(rest[2])
            if shift is None:
                return None
            carry = self.truth(rest[-1]) if "X" in parts else 0
            return [each(lambda l, s, h, k: (((l | (h << 32)) << shift) >> 32) + s + k & MASK, low, add, high, carry)]
        shift = int(rest[2], 0) if len(rest) > 2 and re.fullmatch(r"0x[0-9a-f]+", rest[2]) else 0
        total = each(lambda a, b: (a << shift & MASK) + b, self.read(rest[0]), self.read(rest[1]))
        return [each(lambda t: t & MASK, total), each(lambda t: int(t > MASK), total)]

    def do_LOP3(self, parts, rest, operands):
        table = int(rest[3], 0)
        made = each(lambda a, b, c: lop3(a, b, c, table), *(self.read(o) for o in rest[:3]))
        return [made, each(lambda v: int(v != 0), made)]

    def do_LOP32I(self, parts, rest, operands):
        f = {"AND": lambda a, b: a & b, "OR": lambda a, b: a | b, "XOR": lambda a, b: a ^ b}[parts[1]]
        return [each(f, self.read(rest[0]), self.read(rest[1]))]

    def do_SHF(self, parts, rest, operands):
        low, by, high = (self.read(o) for o in rest[:3])
        wide = 63 if "64" in " ".join(parts) or "U64" in parts or "S64" in parts else 31
        is_signed = any(p.startswith("S") and p[1:].isdigit() for p in parts)

        def shift(l, s, h):
            s = s & wide if "W" in parts else min(s, 63)
            both = l | h << 32
            if "L" in parts:
                return both << s >> (32 if "HI" in parts else 0) & MASK
            if "HI" in parts and "U32" in parts or "HI" in parts and "S32" in parts:
                return (signed(h) if is_signed else h) >> s & MASK
            return (signed(both, 64) if is_signed else both) >> s >> (32 if "HI" in parts else 0) & MASK
        return [each(shift, low, by, high)]

    def do_PRMT(self, parts, rest, operands):
        return [each(lambda a, s, b: permute(a, b, s), *(self.read(o) for o in rest[:3]))] if len(parts) == 1 else None

    def do_SEL(self, parts, rest, operands):
        return [each(lambda a, b, c: a if c else b, self.read(rest[0]), self.read(rest[1]), self.truth(rest[2]))]

    def do_IMNMX(self, parts, rest, operands):
        key = (lambda v: v) if "U32" in parts else signed
        return [each(lambda a, b, least: min(a, b, key=key) if least else max(a, b, key=key), self.read(rest[0]), self.read(rest[1]),
                     self.truth(rest[2]))]

    do_VIMNMX = do_IMNMX

    def do_VIADDMNMX(self, parts, rest, operands):
        key = (lambda v: v) if "U32" in parts else signed
        return [each(lambda a, b, c, least: (min if least else max)(a + b & MASK, c, key=key), *(self.read(o) for o in rest[:3]),
                     self.truth(rest[3]))]

    def do_IABS(self, parts, rest, operands):
        return [each(lambda a: abs(signed(a)), self.read(rest[0]))]

    def do_BMSK(self, parts, rest, operands):
        return [each(lambda at, width: (1 << min(width, 32)) - 1 << min(at, 32) & MASK, self.read(rest[0]), self.read(rest[1]))]

    def do_SGXT(self, parts, rest, operands):
        fix = (lambda v, n: v & (1 << n) - 1) if "U32" in parts else (lambda v, n: signed(v & (1 << n) - 1, n) & MASK)
        return [each(fix, self.read(rest[0]), self.read(rest[1]))]

    def do_ISETP(self, parts, rest, operands):
        fix = (lambda v: v) if "U32" in parts else signed
        a, b = self.read(rest[0]), self.read(rest[1])
        made = each(lambda x, y: int(COMPARE[parts[1]](fix(x), fix(y))), a, b)
        if "EX" in parts:
            low = self.truth(rest[3]) if len(rest) > 3 else None
            made = each(lambda x, y, l: int(COMPARE[parts[1]](fix(x), fix(y)) if x != y else l), a, b, low)
        other = self.truth(rest[2]) if len(rest) > 2 else 1
        join = (lambda x, y: x & y) if "AND" in parts else (lambda x, y: x | y) if "OR" in parts else (lambda x, y: x ^ y)
        return [each(join, made, other), each(lambda x, y: join(1 - x, y), made, other)]

    def do_PLOP3(self, parts, rest, operands):
        values, table = [self.truth(o) for o in rest[:3]], int(rest[3], 0)
        return [each(lambda a, b, c: table >> (a << 2 | b << 1 | c) & 1, *values)]

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
