"""Runs AMD's integer instructions for the lanes of a group's first wave."""
import re

from .amd_arithmetic import COMPARE, NARROW, PLAIN, WIDE
from .walk import MASK, Addresses, address_of_argument, each, lane_list, signed

def compared(how, kind, bits, a, b):
    bits = int(bits)
    fix = (lambda v: signed(v & (1 << bits) - 1, bits)) if kind == "i" else (lambda v: v & (1 << bits) - 1)
    return each(lambda x, y: int(COMPARE[how](fix(x), fix(y))), a, b)


def bits_by_table(table, a, b, c):
    """For the bits of a, b and c, those with number 4 a + 2 b + c of the table."""
    return sum(((a if at & 4 else ~a) & (b if at & 2 else ~b) & (c if at & 1 else ~c) & MASK) for at in range(8) if table >> at & 1)


class Machine:
    def __init__(self, program, figures, extents, first=0, group=0):
        """figures: the assembly's facts about user registers; extents: of the group, x, y, z; first: the wave's first item;
        group: the group's number along x."""
        self.wave = program.wave
        self.full = (1 << self.wave) - 1
        self.missing = set()  # integer instructions that were met but are not implemented here
        self.registers = {"exec": self.full, "scc": None, "vcc": 0, "m0": 0}
        x, y, z = extents
        ids = [(lane % x, lane // x % y, lane // (x * y) % z) for lane in range(first, first + self.wave)]
        if figures["packed_ids"]:
            self.registers["v0"] = [a | b << 10 | c << 20 for a, b, c in ids]
        else:
            for dimension in range(3):
                self.registers[f"v{dimension}"] = [one[dimension] for one in ids]
        arguments = figures["kernarg_register"]
        self.registers[f"s{arguments}"], self.registers[f"s{arguments + 1}"] = 0, 0x7E57
        for number in range(figures["user_registers"], figures["user_registers"] + 3):
            self.registers[f"s{number}"] = group if number == figures["user_registers"] else 0
        self.group = group

    # ---- Operands ----

    def read(self, operand, wide=False):
        operand = operand.strip()
        if operand.startswith("-") or operand.startswith("|"):
            if not re.fullmatch(r"-\d+|-0x[0-9a-f]+", operand):
                return None
        found = re.fullmatch(r"([vsa])\[(\d+):(\d+)\]", operand)
        if found:
            low = self.registers.get(found[1] + found[2])
            if not wide:
                return low
            return each(lambda a, b: a | b << 32, low, self.registers.get(f"{found[1]}{int(found[2]) + 1}"))
        if re.fullmatch(r"[vsa]\d+", operand):
            return self.registers.get(operand)
        if operand in ("vcc", "vcc_lo", "exec", "exec_lo", "m0", "scc"):
            return self.registers[operand.removesuffix("_lo")]
        if operand in ("vcc_hi", "exec_hi"):
            return each(lambda a: a >> 32, self.registers[operand[:-3]])
        if operand.startswith("ttmp") or operand in ("null", "off"):
            return self.group if operand == "ttmp9" else 0  # on gfx12 the group's number
        try:
            return int(operand, 0) & (0xFFFFFFFFFFFFFFFF if wide else MASK)
        except ValueError:
            return None

    def write(self, operand, value, wide=False):
        operand = operand.strip()
        if operand in ("vcc", "exec", "vcc_lo", "exec_lo", "m0"):
            self.registers[operand.removesuffix("_lo")] = value
            return
        found = re.fullmatch(r"([vsa])(?:\[(\d+):(\d+)\]|(\d+))", operand)
        if not found:
            return
        kind, number = found[1], int(found[2] or found[4])
        self.put(kind + str(number), each(lambda a: a & MASK, value))
        if wide:
            self.put(f"{kind}{number + 1}", each(lambda a: a >> 32 & MASK, value))

    def put(self, register, value):
        active = self.registers["exec"]
        if register[0] == "v" and active is not None and active != self.full:
            old = lane_list(self.registers.get(register), self.wave)
            new = lane_list(value, self.wave)
            value = [new[lane] if active >> lane & 1 else old[lane] for lane in range(self.wave)]
        self.registers[register] = value

    def mask(self, value):
        """Bits of the active lanes whose value is true."""
        active = self.registers["exec"]
        if value is None or active is None:
            return None
        bits = 0
        for lane, one in enumerate(lane_list(value, self.wave)):
            if active >> lane & 1:
                if one is None:
                    return None
                bits |= bool(one) << lane
        return bits

    def lanes_of(self, mask):
        return None if mask is None else [mask >> lane & 1 for lane in range(self.wave)]

    # ---- Instructions ----

    def run(self, instruction):
        """(whether a branch is taken, or None; Addresses or None)."""
        if instruction.parts:
            values = []
            for part in instruction.parts:
                before = dict(self.registers)
                self.run(part)
                values.append({k: v for k, v in self.registers.items() if before.get(k) is not v})
                self.registers = before
            for one in values:
                self.registers.update(one)
            return None, None
        kind = instruction.kind
        if kind == "branch":
            return self.branch(instruction), None
        if kind in ("local_read", "local_write", "global_read", "global_write", "copy", "scratch"):
            addresses = self.addresses(instruction)
            if "read" in kind:
                self.forget(instruction)
            return None, addresses
        if kind == "scalar_load":
            self.load(instruction)
        elif kind in ("scalar", "vector", "transcendental"):
            self.compute(instruction)
        elif kind not in ("wait", "free", "barrier", "end"):  # including shuffles, whose results are not computed
            self.forget(instruction)
        return None, None

    def forget(self, instruction):
        for register in instruction.writes:
            self.registers[register] = None

    def branch(self, instruction):
        condition = instruction.name.removeprefix("s_cbranch_")
        if condition == instruction.name:
            return True
        value = self.registers["vcc" if "vcc" in condition else "exec" if "exec" in condition else "scc"]
        if value is None:
            return None
        return not value if condition.endswith(("z", "0")) and not condition.endswith("nz") else bool(value)

    def load(self, instruction):
        """Kernels take buffers only."""
        operand, base = instruction.operands[0], instruction.operands[1]
        high = self.registers.get(re.sub(r"s\[(\d+):(\d+)\]", lambda m: f"s{m[2]}", base))
        rest = instruction.operands[2].split() if len(instruction.operands) > 2 else ["0"]
        try:
            offset = int(rest[0], 0)
        except ValueError:
            offset = None
        found = re.fullmatch(r"s(?:\[(\d+):(\d+)\]|(\d+))", operand)
        first, last = int(found[1] or found[3]), int(found[2] or found[3])
        for number in range(first, last + 1):
            known = high == 0x7E57 and offset is not None
            at = (offset or 0) // 4 + number - first
            self.registers[f"s{number}"] = address_of_argument(at) if known else None

    def compute(self, instruction):
        name, operands = instruction.name[2:].removeprefix("dual_"), instruction.operands
        if operands and "_sel:" in operands[-1]:
            return self.compute_parts(instruction, name, operands)
        if operands and re.search(r"row_|quad_perm|dpp8", operands[-1]):
            return self.forget(instruction)
        operands = [o.split(" ")[0] if not o.startswith("s[") else o for o in operands]
        compare = re.match(r"(cmpx?|cmpk)_(\w\w)_([uib])(16|32|64)$", name)
        if compare:
            return self.compare(instruction, operands, *compare.groups())
        if name.endswith(("_saveexec_b32", "_saveexec_b64")):
            return self.save_exec(name, operands)
        if name.startswith("cselect"):
            wide = name.endswith("64")
            value = each(lambda c, a, b: a if c else b, self.registers["scc"], self.read(operands[1], wide), self.read(operands[2], wide))
            return self.write(operands[0], value, wide)
        if name == "cndmask_b32":
            mask = self.lanes_of(self.read_mask(operands[3] if len(operands) > 3 else "vcc"))
            return self.write(operands[0], each(lambda c, a, b: b if c else a, mask, self.read(operands[1]), self.read(operands[2])))
        if name.startswith("mbcnt"):
            low = name.startswith("mbcnt_lo")
            lane = [min(n, 32) if low else max(n - 32, 0) for n in range(self.wave)]
            known = self.read(operands[1]) in (MASK, 0xFFFFFFFFFFFFFFFF)
            return self.write(operands[0], each(lambda a, b: a + b, lane, self.read(operands[2])) if known else None)
        if name.startswith(("readfirstlane", "readlane")):
            value = self.read(operands[1])
            first = value if not isinstance(value, list) else value[0]
            return self.write(operands[0], first)
        if name not in WIDE and re.match(r"(add|sub|subrev)_?(co|c|b)?_|addc|subb|(add|sub)_co", name) and self.carries(instruction, name, operands):
            return None
        if name in WIDE:
            narrow = NARROW.get(name, ())
            sources = operands[2:] if "mad_" in name else operands[1:]
            values = [self.read(o, n not in narrow) for n, o in enumerate(sources)]
            made = each(lambda *v: WIDE[name](*v) & 0xFFFFFFFFFFFFFFFF, *values)
            self.set_scc(instruction, name, values, made)
            return self.write(operands[0], made, True)
        if name in ("addk_i32", "addk_co_i32", "mulk_i32"):
            step = signed(int(operands[1], 0) & 0xFFFF, 16)
            value = each(lambda a: (a + step if name[0] == "a" else a * step) & MASK, self.read(operands[0]))
            if name[0] == "a":
                self.registers["scc"] = None
            return self.write(operands[0], value)
        if name in ("bitset0_b32", "bitset1_b32"):  # SCC stays
            value = each(lambda a, b: a | 1 << (b & 31) if name[6] == "1" else a & ~(1 << (b & 31)),
                         self.read(operands[0]), self.read(operands[1]))
            return self.write(operands[0], value)
        if name == "bitop3_b32":
            table = int(re.search(r"bitop3:(\w+)|$", instruction.text)[1] or "0", 0)
            return self.write(operands[0], each(lambda *v: bits_by_table(table, *v), *map(self.read, operands[1:])))
        if name in PLAIN:
            values = [self.read(o) for o in operands[1:]]
            if instruction.kind == "scalar" and name.startswith("bfe"):  # both numbers in one operand
                values[1:] = [each(lambda v: v & 31, values[1]), each(lambda v: v >> 16 & 127, values[1])]
            made = each(PLAIN[name], *values)
            self.set_scc(instruction, name, values, made)
            return self.write(operands[0], made)
        if instruction.kind == "scalar":
            self.registers["scc"] = None
        if not re.search(r"f16|f32|f64|bf16", name):
            self.missing.add(instruction.name)
        return self.forget(instruction)

    def set_scc(self, instruction, name, values, made):
        """Sets SCC as a scalar instruction does: whether the result is not zero, or whether the first is the least or
        greatest. Moves, products and additions without carry (s_add_nc_u64) do not change it; for other additions it is not
        computed."""
        if instruction.kind != "scalar" or "_nc_" in name:
            return
        if name.startswith(("add", "sub")) or "_add_" in name:
            self.registers["scc"] = None
        elif name.startswith(("min", "max")):
            self.registers["scc"] = each(lambda m, a, b: int(m == a and a != b), made, *values)
        elif name.startswith(("and", "or", "xor", "not", "lsh", "ash", "bfe", "xnor", "abs")):
            self.registers["scc"] = None if made is None else int(made != 0)

    def compute_parts(self, instruction, name, operands):
        """SDWA: operands and result may be a byte or a word of a register."""
        places = re.findall(r"(dst|src0|src1)_sel:(\w+?)(?:_(\d))?(?:\s|$)", operands[-1])
        width = {"DWORD": 32, "WORD": 16, "BYTE": 8}
        parts = {which: (width[size] * int(number or 0), width[size]) for which, size, number in places}
        values = []
        for number, operand in enumerate(operands[1:]):
            at, bits = parts.get(f"src{number}", (0, 32))
            source = operand.split(" ")[0]
            value = each(lambda v: v >> at & (1 << bits) - 1, self.read(source.removeprefix("sext(").removesuffix(")")))
            if source.startswith("sext("):
                value = each(lambda v: signed(v, bits) & MASK, value)
            values.append(value)
        compare = re.match(r"cmp_(\w\w)_([ui])(16|32)$", name)
        if compare:
            return self.write(operands[0], self.mask(compared(*compare.groups(), *values)), self.wave == 64)
        at, bits = parts.get("dst", (0, 32))
        if name not in PLAIN or "UNUSED_PRESERVE" in operands[-1]:
            return self.forget(instruction)
        self.write(operands[0], each(lambda v: (v & (1 << bits) - 1) << at, each(PLAIN[name], *values)))
        return None

    def read_mask(self, operand):
        return self.read(operand, wide=self.wave == 64)

    def compare(self, instruction, operands, form, how, kind, bits):
        bits = int(bits)
        scalar = instruction.kind == "scalar"
        a, b = operands[-2:]
        a, b = self.read(a, bits == 64), self.read(b, bits == 64)
        made = compared(how, kind, bits, a, b)
        if scalar:
            self.registers["scc"] = made
        elif form == "cmpx":
            self.registers["exec"] = self.mask(made)
        else:
            target = operands[0] if len(operands) > 2 else "vcc"
            self.write(target, self.mask(made), self.wave == 64)

    def save_exec(self, name, operands):
        wide = name.endswith("64")
        source, old = self.read(operands[1], wide), self.registers["exec"]
        function = {"and": lambda s, e: s & e, "or": lambda s, e: s | e, "xor": lambda s, e: s ^ e, "andn2": lambda s, e: s & ~e,
                    "and_not1": lambda s, e: s & ~e, "orn2": lambda s, e: s | ~e, "or_not1": lambda s, e: s | ~e}[name.split("_save")[0]]
        self.write(operands[0], old, wide)
        new = each(lambda s, e: function(s, e) & self.full, source, old)
        self.registers["exec"] = new
        self.registers["scc"] = None if new is None else int(new != 0)

    def carries(self, instruction, name, operands):
        """Additions with carry in or out; False for others."""
        carry_in = "addc" in name or "subb" in name or "_ci_" in name
        sign = -1 if name.startswith("sub") else 1
        if instruction.kind == "scalar":
            a, b = self.read(operands[1]), self.read(operands[2])
            made = each(lambda x, y, c: x + sign * (y + c), a, b, self.registers["scc"] if carry_in else 0)
            self.write(operands[0], each(lambda v: v & MASK, made))
            is_signed = name.endswith("i32")
            self.registers["scc"] = None if is_signed else each(lambda v: int(v < 0 or v > MASK), made)
            return True
        if "_co_" not in name and "addc" not in name and "subb" not in name:
            return False
        sources = operands[2:4]
        a, b = (self.read(o) for o in sources)
        if name.startswith("subrev"):
            a, b = b, a
        carry = self.lanes_of(self.read_mask(operands[4])) if carry_in and len(operands) > 4 else 0
        made = each(lambda x, y, c: x + sign * (y + c), a, b, carry)
        self.write(operands[0], each(lambda v: v & MASK, made))
        self.write(operands[1], self.mask(each(lambda v: int(v < 0 or v > MASK), made)), self.wave == 64)
        return True

    # ---- Addresses ----

    def addresses(self, instruction):
        """Low 32 bits: a buffer's lanes lie within 4 GiB."""
        if instruction.kind == "scratch":
            return None
        text = ", ".join(instruction.operands)
        offset = re.search(r"offset:(\d+|-\d+|0x[0-9a-f]+)", text)
        first = re.search(r"offset0:(\d+)", text)
        at = int(offset[1], 0) if offset else int(first[1]) * (instruction.bytes // 2) * (64 if re.search(r"st64|stride64", instruction.name) else 1) if first else 0
        operands = [o.split(" ")[0] for o in instruction.operands]
        if instruction.name.startswith("ds_"):
            value = self.read(operands[0] if instruction.kind == "local_write" else operands[1] if len(operands) > 1 else "?")
        elif instruction.name.startswith("buffer_"):
            resource = next((n for n, o in enumerate(operands) if re.fullmatch(r"s\[\d+:\d+\]", o)), None)
            if resource is None:
                return None
            offset_lanes = self.read(operands[resource - 1]) if "offen" in text or "idxen" in text else 0
            value = each(lambda a, b: a + b, offset_lanes, self.read(operands[resource + 1]) if resource + 1 < len(operands) else 0)
        else:
            vectors = operands[0] if instruction.kind == "global_write" or instruction.kind == "copy" else operands[1]
            base = operands[-1] if re.fullmatch(r"s\[\d+:\d+\]", operands[-1]) else "0"
            value = each(lambda a, b: a + b, self.read(vectors), self.read(base))
        if value is None:
            return None
        active = self.registers["exec"]
        active = self.full if active is None else active
        lanes = [None if one is None or not active >> n & 1 else one + at & MASK for n, one in enumerate(lane_list(value, self.wave))]
        if all(one is None for one in lanes):
            return None
        return Addresses(local=lanes) if instruction.name.startswith("ds_") else Addresses(globals=lanes)


def figures(assembly):
    """The assembly's facts about the registers that a wave starts with."""
    def number(name):
        found = re.search(rf"\.amdhsa_{name}\s+(\d+)", assembly)
        return int(found[1]) if found else 0
    before = 4 * number("user_sgpr_private_segment_buffer") + 2 * number("user_sgpr_dispatch_ptr") + 2 * number("user_sgpr_queue_ptr")
    chip = re.search(r"--(gfx\w+)", assembly)
    packed = bool(chip and re.match(r"gfx(90a|94|95|11|12)", chip[1]))
    return {"kernarg_register": before, "user_registers": number("user_sgpr_count"), "packed_ids": packed}
