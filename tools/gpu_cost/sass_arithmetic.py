"""NVIDIA's integer instructions: do_NAME returns the values of an instruction's results, in their order, or None.

`parts`: the parts of the name between its dots; `rest`: the operands without results.
"""
import re
import struct

from .walk import MASK, each, signed

COMPARE = {"EQ": lambda a, b: a == b, "NE": lambda a, b: a != b, "LT": lambda a, b: a < b, "LE": lambda a, b: a <= b,
           "GT": lambda a, b: a > b, "GE": lambda a, b: a >= b, "T": lambda a, b: True, "F": lambda a, b: False}


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


class Arithmetic:
    """The instructions of a machine that has read(), truth() and write()."""

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
        return [self.special.get(rest[0])]

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
            if shift is None:
                return None
            low, add = self.read(rest[0]), self.read(rest[1])
            high = each(lambda l: MASK if l >> 31 else 0, low) if "SX32" in parts else self.read(rest[2])
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
