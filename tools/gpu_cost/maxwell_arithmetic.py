"""Integer instructions that only NVIDIA's chips before sm_70 (Maxwell and Pascal) have."""
from .sass_arithmetic import COMPARE, Arithmetic
from .walk import MASK, each, signed


class MaxwellArithmetic(Arithmetic):
    """As in Arithmetic."""

    def do_XMAD(self, parts, rest, operands):
        """Products of 16 bits (Scott Gray, maxas: wiki pages on XMAD)."""
        a, b = (self.half(o, "S16" in parts[1:]) for o in rest[:2])
        whole, c = self.read(rest[1].replace(".H1", "")), self.read(rest[2])

        def made(x, y, full, z):
            z = z & 0xFFFF if "CLO" in parts else z >> 16 if "CHI" in parts else z + (full << 16) if "CBCC" in parts else z
            total = (x * y << (16 if "PSL" in parts else 0)) + z & MASK
            return total & 0xFFFF | full << 16 & MASK if "MRG" in parts else total
        return [each(made, a, b, whole, c)]

    def half(self, operand, is_signed):
        shift = 16 if ".H1" in operand else 0
        value = each(lambda v: v >> shift & 0xFFFF, self.read(operand.replace(".H1", "")))
        return each(lambda v: signed(v, 16), value) if is_signed else value

    def do_IADD32I(self, parts, rest, operands):
        return self.do_IADD(parts, rest, operands)

    def do_ISCADD(self, parts, rest, operands):
        shift = int(rest[2], 0)
        return [each(lambda a, b: (a << shift) + b & MASK, self.read(rest[0]), self.read(rest[1]))]

    do_ISCADD32I = do_ISCADD

    def do_SHL(self, parts, rest, operands):
        return [each(lambda a, by: a << min(by, 32) & MASK, self.read(rest[0]), self.read(rest[1]))]

    def do_SHR(self, parts, rest, operands):
        fix = (lambda v: v) if "U32" in parts else signed
        return [each(lambda a, by: fix(a) >> min(by, 32) & MASK, self.read(rest[0]), self.read(rest[1]))]

    def do_LOP(self, parts, rest, operands):
        if parts[1] == "PASS_B":
            return [self.read(rest[1])]
        return self.do_LOP32I(parts, rest, operands)

    def do_BFE(self, parts, rest, operands):
        def field(a, place):
            width = place >> 8 & 255
            value = a >> (place & 255) & (1 << width) - 1
            return value if "U32" in parts or not width else signed(value, width) & MASK
        return [each(field, self.read(rest[0]), self.read(rest[1]))]

    def do_BFI(self, parts, rest, operands):
        def inserted(a, place, c):
            mask = (1 << (place >> 8 & 255)) - 1 << (place & 255) & MASK
            return a << (place & 255) & mask | c & ~mask
        return [each(inserted, *(self.read(o) for o in rest[:3]))]

    def do_ICMP(self, parts, rest, operands):
        fix = (lambda v: v) if "U32" in parts else signed
        return [each(lambda a, b, c: a if COMPARE[parts[1]](fix(c), 0) else b, *(self.read(o) for o in rest[:3]))]

    def do_ISET(self, parts, rest, operands):
        """Like ISETP, but with a number as its result."""
        return [self.number(parts, self.do_ISETP([p for p in parts if p != "BF"], rest, operands)[0])]

    def do_PSET(self, parts, rest, operands):
        return [self.number(parts, self.do_PSETP([p for p in parts if p != "BF"], rest, operands)[0])]

    def number(self, parts, truth):
        return each(lambda t: t * (0x3F800000 if "BF" in parts else MASK), truth)  # 1.0, or all bits

    def do_PSETP(self, parts, rest, operands):
        join = {"AND": lambda a, b: a & b, "OR": lambda a, b: a | b, "XOR": lambda a, b: a ^ b}
        a, b, c = (self.truth(o) for o in rest[:3])
        return [each(lambda x, y, z: join[parts[2]](join[parts[1]](x, y), z), a, b, c),
                each(lambda x, y, z: join[parts[2]](1 - join[parts[1]](x, y), z), a, b, c)]
