"""Integer instructions of NVIDIA's chips before sm_70 (Maxwell and Pascal), where they differ from those of newer chips.

The flag CC is kept as two predicates: "CC" (carry) and "CC.Z" (the result was 0). As everywhere, None is a value that is not
known; so is the result of an instruction with a suffix that is not listed here.
"""
import functools

from .sass_arithmetic import COMPARE, Arithmetic
from .walk import MASK, each, signed

JOINS = {"AND": lambda a, b: a & b, "OR": lambda a, b: a | b, "XOR": lambda a, b: a ^ b}


def suffixes(*known):
    """For a do_NAME: nothing is known of the result if the name has another suffix."""
    def around(method):
        @functools.wraps(method)
        def checked(self, parts, rest, operands):
            return method(self, parts, rest, operands) if set(parts[1:]) <= set(known) else None
        return checked
    return around


class MaxwellArithmetic(Arithmetic):
    """As in Arithmetic."""

    # ---- Sums, and the flag ----

    def summand(self, operand, whole=True):
        """The number to add for an operand: for -b its complement, and 1 if it is not the upper word of a number of 64 bits."""
        if operand.startswith("-R") or operand.startswith("-c"):
            return each(lambda b: (MASK ^ b) + (1 if whole else 0), self.read(operand[1:]))
        return self.read(operand)

    def set_flag(self, operand, total):
        """The low 32 bits of a sum; the rest is its carry."""
        if operand.endswith(".CC"):
            self.predicates["CC"] = each(lambda t: int(t > MASK), total)
            self.predicates["CC.Z"] = each(lambda t: int(t & MASK == 0), total)
        return each(lambda t: t & MASK, total)

    def sum_of(self, parts, numbers, operands):
        """The sum of operands; with X also of the carry."""
        with_carry = "X" in parts
        values = [self.summand(o, not with_carry) for o in numbers]
        return [self.set_flag(operands[0], each(lambda *v: sum(v), *values, self.predicates.get("CC") if with_carry else 0))]

    @suffixes("X")
    def do_IADD(self, parts, rest, operands):
        return self.sum_of(parts, rest[:2], operands)

    do_IADD32I = do_IADD

    @suffixes("X", "RS", "LS")
    def do_IADD3(self, parts, rest, operands):
        if "RS" in parts or "LS" in parts:  # the sum of the first two, of 33 bits, is shifted by 16
            shift = (lambda v: v >> 16) if "RS" in parts else (lambda v: v << 16)
            first = each(lambda a, b: shift(a + b), self.summand(rest[0]), self.summand(rest[1]))
            return None if "X" in parts else [self.set_flag(operands[0], each(lambda a, c: a + c, first, self.summand(rest[2])))]
        return self.sum_of(parts, rest[:3], operands)

    @suffixes()
    def do_ISCADD(self, parts, rest, operands):
        shift = int(rest[2], 0)
        return [self.set_flag(operands[0], each(lambda a, b: (a << shift & MASK) + b, self.read(rest[0]), self.summand(rest[1])))]

    do_ISCADD32I = do_ISCADD

    @suffixes("HI", "X")
    def do_LEA(self, parts, rest, operands):
        carry = self.predicates.get("CC") if "X" in parts else 0
        if "HI" not in parts:
            shift = int(rest[2], 0) if len(rest) > 2 else 0
            total = each(lambda a, b, k: (a << shift & MASK) + b + k, self.read(rest[0]), self.read(rest[1]), carry)
        else:
            shift = int(rest[3], 0)
            total = each(lambda low, add, high, k: (((low | high << 32) << shift) >> 32 & MASK) + add + k, self.read(rest[0]),
                         self.read(rest[1]), self.read(rest[2]), carry)
        return [self.set_flag(operands[0], total)]

    @suffixes("U16", "S16", "MRG", "PSL", "CHI", "CLO", "CBCC", "CSFU")
    def do_XMAD(self, parts, rest, operands):
        """A product of 16 bits and a sum (Scott Gray, maxas: wiki pages on XMAD)."""
        types = [p for p in parts if p in ("U16", "S16")]
        if len(types) == 1 or operands[0].endswith(".CC"):
            return None
        first, second = types or ("U16", "U16")
        a, b = self.half(rest[0], first == "S16"), self.half(rest[1], second == "S16")
        whole, c = self.read(rest[1].replace(".H1", "")), self.read(rest[2])

        def made(x, y, full, z):
            if "CSFU" in parts and (x < 0 or y < 0):  # what it adds then is not published
                return None
            z = z & 0xFFFF if "CLO" in parts else z >> 16 if "CHI" in parts else z + (full << 16) if "CBCC" in parts else z
            total = (x * y << (16 if "PSL" in parts else 0)) + z & MASK
            return total & 0xFFFF | full << 16 & MASK if "MRG" in parts else total
        return [each(made, a, b, whole, c)]

    def half(self, operand, is_signed):
        shift = 16 if ".H1" in operand else 0
        value = each(lambda v: v >> shift & 0xFFFF, self.read(operand.replace(".H1", "")))
        return each(lambda v: signed(v, 16), value) if is_signed else value

    # ---- Bits ----

    @suffixes("W")
    def do_SHL(self, parts, rest, operands):
        count = (lambda by: by & 31) if "W" in parts else (lambda by: min(by, 32))
        return [each(lambda a, by: a << count(by) & MASK, self.read(rest[0]), self.read(rest[1]))]

    @suffixes("W", "U32")
    def do_SHR(self, parts, rest, operands):
        fix = (lambda v: v) if "U32" in parts else signed
        count = (lambda by: by & 31) if "W" in parts else (lambda by: min(by, 32))
        return [each(lambda a, by: fix(a) >> count(by) & MASK, self.read(rest[0]), self.read(rest[1]))]

    @suffixes("L", "R", "W", "U64", "S64")
    def do_SHF(self, parts, rest, operands):
        most = 63 if "U64" in parts or "S64" in parts else 32

        def shifted(low, by, high):
            by = by & 31 if "W" in parts else min(by, most)
            both = low | high << 32
            if "L" in parts:
                return both << by >> 32 & MASK
            return (signed(both, 64) if "S64" in parts else both) >> by & MASK
        return [each(shifted, *(self.read(o) for o in rest[:3]))]

    @suffixes("AND", "OR", "XOR", "PASS_B", "Z", "NZ")
    def do_LOP(self, parts, rest, operands):
        a, b = self.read(rest[0]), self.read(rest[1])
        made = b if "PASS_B" in parts else each(JOINS[parts[1]], a, b)
        return [made, each(lambda v: int((v == 0) == ("Z" in parts)), made)]

    @suffixes("U32")
    def do_BFE(self, parts, rest, operands):
        def field(a, place):
            at, width = place & 255, place >> 8 & 255
            if "U32" in parts:
                return a >> at & (1 << width) - 1
            width = min(width, max(32 - at, 1))  # beyond the number, its sign follows
            return signed(signed(a) >> min(at, 31) & (1 << width) - 1, width) & MASK if width else 0
        return [each(field, self.read(rest[0]), self.read(rest[1]))]

    @suffixes()
    def do_BFI(self, parts, rest, operands):
        def inserted(a, place, c):
            mask = (1 << (place >> 8 & 255)) - 1 << (place & 255) & MASK
            return a << (place & 255) & mask | c & ~mask
        return [each(inserted, *(self.read(o) for o in rest[:3]))]

    # ---- Comparisons ----

    def do_ISETP(self, parts, rest, operands):
        if "X" not in parts:
            return super().do_ISETP(parts, rest, operands)
        if parts[1] not in ("LT", "GE", "EQ", "NE", "LE", "GT") or parts[-1] not in JOINS:
            return None
        # The upper words of numbers of 64 bits, after IADD RZ.CC has compared the lower ones.
        fix = (lambda v: v) if "U32" in parts else signed

        def compared(a, b, carry, low_is_zero):
            difference = fix(a) - fix(b) - (1 - carry)
            sign = 0 if difference == 0 and low_is_zero else -1 if difference < 0 else 1
            return int(COMPARE[parts[1]](sign, 0))
        made = each(compared, self.read(rest[0]), self.read(rest[1]), self.predicates.get("CC"), self.predicates.get("CC.Z"))
        join, other = JOINS[parts[-1]], self.truth(rest[2])
        return [each(join, made, other), each(lambda x, y: join(1 - x, y), made, other)]

    def do_ISET(self, parts, rest, operands):
        """Like ISETP, but with a number as its result."""
        made = self.do_ISETP([p for p in parts if p != "BF"], rest, operands)
        return made and [self.number(parts, made[0])]

    @suffixes("AND", "OR", "XOR")
    def do_PSETP(self, parts, rest, operands):
        a, b, c = (self.truth(o) for o in rest[:3])
        return [each(lambda x, y, z: JOINS[parts[2]](JOINS[parts[1]](x, y), z), a, b, c),
                each(lambda x, y, z: JOINS[parts[2]](1 - JOINS[parts[1]](x, y), z), a, b, c)]

    def do_PSET(self, parts, rest, operands):
        made = self.do_PSETP([p for p in parts if p != "BF"], rest, operands)
        return made and [self.number(parts, made[0])]

    def number(self, parts, truth):
        return each(lambda t: t * (0x3F800000 if "BF" in parts else MASK), truth)  # 1.0, or all bits

    def do_ICMP(self, parts, rest, operands):
        fix = (lambda v: v) if "U32" in parts else signed
        return [each(lambda a, b, c: a if COMPARE[parts[1]](fix(c), 0) else b, *(self.read(o) for o in rest[:3]))]

    @suffixes("U32")
    def do_IMNMX(self, parts, rest, operands):
        return super().do_IMNMX(parts, rest, operands)
