"""Reads machine code of NVIDIA's chips (SASS), sm_70 and later: nvdisasm -c -hex, and the cubin's sections."""
import re
import struct

from .instruction import Control, Instruction, Program

LINE = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;\s*/\* 0x([0-9a-f]{16}) \*/")
SECOND = re.compile(r"^\s*/\* 0x([0-9a-f]{16}) \*/\s*$")
LABEL = re.compile(r"^\s*(\.[\w.$]+|[A-Za-z_][\w.$]*):\s*$")
FREE = {"NOP", "BSSY", "BSYNC", "YIELD", "WARPSYNC", "NANOSLEEP", "FENCE", "ERRBAR", "CCTL", "MEMBAR", "PREEXIT", "ACQBULK", "DEPBAR",
        "LDGDEPBAR", "SSY", "PBK", "PCNT", "CAL", "WARPGROUP", "BMOV", "BREAK", "UCGABAR_WAIT", "ELECT", "USETMAXREG", "CS2R", "S2R", "S2UR", "CGAERRBAR", "B2R", "R2B"}
GLOBAL_READ, GLOBAL_WRITE = {"LDG", "LD", "LDC", "LDCU"}, {"STG", "ST", "RED", "ATOMG", "ATOM", "REDG", "UTMASTG"}
MATRIX = {"HMMA", "IMMA", "DMMA", "QMMA", "BMMA", "HGMMA", "IGMMA", "QGMMA", "OMMA"}


def matrix_shape(name):
    """FLOPs of the warp, and the type."""
    parts = name.split(".")
    shape = next(p for p in parts[1:] if re.fullmatch(r"\d+(x\d+x\d+)?", p))
    if "x" in shape:  # four warps share it
        m, n, k = map(int, shape.split("x"))
        flops = 2 * m * n * k // 4
    else:
        m, n, k = {"884": (8, 8, 4), "1684": (16, 8, 4), "1688": (16, 8, 8), "16816": (16, 8, 16), "16832": (16, 8, 32),
                   "16864": (16, 8, 64), "8816": (8, 8, 16), "8832": (8, 8, 32)}[shape]
        flops = 2 * m * n * k
    kind = parts[0][0]
    dtype = "i8" if kind == "I" else "f64" if kind == "D" else "fp8" if kind == "Q" else "f16"
    if kind == "H":
        dtype = "bf16" if "BF16" in parts else "tf32" if "TF32" in parts else "f16"
    return flops, dtype


def control_of(high):
    """The scheduling information in the upper 64 bits."""
    bits = high >> 41
    barrier = lambda value: None if value == 7 else value
    return Control(bits & 15, barrier(bits >> 5 & 7), barrier(bits >> 8 & 7), tuple(n for n in range(6) if bits >> 11 + n & 1),
                   bits >> 17 & 15)


def one_instruction(text, high):
    found = re.match(r"(?:@(!?U?P\w+)\s+)?([\w.]+)\s*(.*)", text)
    predicate, name, rest = found.groups()
    operands = [o.strip() for o in re.split(r",(?![^\[]*\])", rest)] if rest else []
    base = name.split(".")[0]
    made = Instruction(name, operands, "vector", text, predicate=predicate, control=control_of(high))
    width = next((int(p) // 8 for p in name.split(".")[1:] if p in ("8", "16", "32", "64", "96", "128", "256")), None)
    if width is None:
        width = 1 if ".U8" in name or ".S8" in name else 2 if ".U16" in name or ".S16" in name else 4
    if predicate in ("!PT", "!UPT"):  # ptxas puts some instructions that never run between asynchronous copies
        made.kind = "free"
    elif base in MATRIX:
        made.kind = "matrix"
        made.flops, made.dtype = matrix_shape(name)
    elif base in ("FFMA", "FFMA2", "HFMA2", "DFMA", "HFMA2_MMA", "IDP", "IDP4A"):
        made.kind = "fma"
        made.flops = 32 * {"FFMA2": 4, "HFMA2": 4, "IDP": 8}.get(base, 2)
        # ptxas also uses it to move constants.
        if base == "HFMA2" and all("RZ" in o for o in operands[1:3]):
            made.kind, made.flops = "vector", 0
    elif base in ("BRA", "BRX", "JMP", "BRXU", "CALL", "RET"):
        label = re.search(r"`\((\.[\w.$]+)\)", rest)
        made.kind, made.target = "branch", label[1] if label else None
        made.conditional = predicate not in (None, "PT", "UPT") or len(operands) > 1 or base in ("CALL", "BRX")
        if base == "CALL":
            made.kind = "free"
    elif base == "EXIT":
        made.kind, made.conditional = "end", predicate is not None
    elif base == "BAR" or name.startswith("BARRIER"):
        made.kind = "barrier" if ".ARV" not in name else "free"
    elif base == "SHFL":
        made.kind, made.bytes = "shuffle", 4
    elif base in ("LDS", "LDSM", "ATOMS"):
        made.kind, made.bytes = "local_read", width
        if base == "LDSM":
            made.bytes = 4 * int((re.search(r"\.([24])(\.|$)", name) or [0, "1"])[1])
    elif base in ("STS", "STSM"):
        made.kind, made.bytes = "local_write", width
    elif base == "LDGSTS":
        made.kind, made.bytes = "copy", width
    elif base in ("UBLKCP", "UTMALDG"):
        made.kind = "copy"
    elif base in ("LDL", "STL"):
        made.kind, made.bytes = "scratch", width
    elif base in ("LDC", "LDCU", "ULDC"):
        made.kind = "scalar_load"
    elif base in GLOBAL_READ:
        made.kind, made.bytes = "global_read", width
    elif base in GLOBAL_WRITE:
        made.kind, made.bytes = "global_write", width
    elif base == "MUFU" or re.match(r"[FI]2[FI]|F2FP|FRND|POPC|FLO|BREV", base) and base != "F2FP":
        made.kind = "transcendental"
    elif base in FREE or base in ("SYNCS", "DEPBAR"):
        made.kind = "free"
    elif re.match(r"U[A-Z]|R2UR|VOTEU", base):
        made.kind = "scalar"
    return made


def is_label(line, program):
    """Whether a line names a place in the code, or the function; the program then has it."""
    label = LABEL.match(line)
    if label and label[1].startswith(".L"):
        program.labels[label[1]] = len(program.instructions)
    elif label and label[1].startswith(".text."):
        program.name = label[1][len(".text."):]
    return bool(label)


def read(disassembly):
    """The instructions of nvdisasm's only function."""
    program, pending = Program("kernel", "nvidia", [], {}), None
    for line in disassembly.splitlines():
        found, second = LINE.search(line), SECOND.match(line)
        if is_label(line, program):
            continue
        if found:
            pending = found[2]
        elif second and pending is not None:
            program.instructions.append(one_instruction(pending, int(second[1], 16)))
            pending = None
    program.spills = sum(i.kind == "scratch" for i in program.instructions)
    return program


def sections(cubin):
    """(name, number of registers or 0, offset, size) of an ELF file's sections."""
    at, = struct.unpack_from("<Q", cubin, 40)
    size, count, names = struct.unpack_from("<HHH", cubin, 58)
    rows = [struct.unpack_from("<IIQQQQIIQQ", cubin, at + n * size) for n in range(count)]
    strings = rows[names][4]
    for row in rows:
        end = cubin.index(b"\0", strings + row[0])
        yield cubin[strings + row[0]:end].decode(), row[7], row[4], row[5]


def symbol_number(cubin, kernel):
    """The number of a kernel in the table of symbols. Throws ValueError if the cubin does not have it."""
    found = {name: (offset, size) for name, _, offset, size in sections(cubin)}
    (table, size), (names, _) = found[".symtab"], found[".strtab"]
    for number in range(size // 24):
        at = names + struct.unpack_from("<I", cubin, table + 24 * number)[0]
        if cubin[at:cubin.index(b"\0", at)].decode() == kernel and cubin[table + 24 * number + 4] & 15 == 2:
            return number
    raise ValueError(f"the cubin has no kernel {kernel}")


def attributes(cubin, offset, size):
    """The attributes of a section .nv.info: (attribute, its bytes)."""
    end = offset + size
    while offset + 4 <= end:
        form, attribute, value = struct.unpack_from("<BBH", cubin, offset)
        offset += 4
        if form == 4:
            yield attribute, cubin[offset:offset + value]
            offset += value
        else:
            yield attribute, struct.pack("<H", value)


FRAME_SIZE, MAX_THREADS, REQUIRED_THREADS, REGISTER_COUNT = 0x11, 0x05, 0x10, 0x2f


def add_resources(program, cubin):
    """Adds registers, local memory and the size of groups, from a cubin with one kernel."""
    for name, info, offset, size in sections(cubin):
        if name == ".text." + program.name:
            program.registers = info >> 24 or program.registers
        elif name == ".nv.shared." + program.name:
            program.local = size
        elif re.fullmatch(r"\.nv\.constant[1-4]\." + re.escape(program.name), name):
            program.constants[int(name[len(".nv.constant")])] = cubin[offset:offset + size]
        elif name == ".nv.info." + program.name:
            for attribute, value in attributes(cubin, offset, size):
                if attribute in (MAX_THREADS, REQUIRED_THREADS) and len(value) >= 12:
                    x, y, z = struct.unpack_from("<III", value)
                    program.items = x * y * z
        elif name == ".nv.info":  # for all kernels, by their symbols
            own = symbol_number(cubin, program.name)
            for attribute, value in attributes(cubin, offset, size):
                if len(value) >= 8 and struct.unpack_from("<I", value)[0] == own:
                    if attribute == FRAME_SIZE:
                        program.scratch = struct.unpack_from("<II", value)[1]
                    elif attribute == REGISTER_COUNT:
                        program.registers = struct.unpack_from("<II", value)[1]
    return program
