"""Reads the assembly of clang -S for AMD's chips."""
import re

from .instruction import Instruction, Program

BRANCHES = ("s_branch", "s_cbranch", "s_setpc", "s_swappc", "s_call")
FREE = ("s_nop", "s_delay_alu", "s_clause", "s_setprio", "s_set_inst_prefetch", "s_inst_prefetch", "s_sendmsg", "s_set_gpr_idx",
        "s_sleep", "s_icache_inv", "buffer_gl0_inv", "buffer_gl1_inv", "buffer_wbl2", "buffer_inv", "global_inv", "global_wb", "s_dcache",
        "s_code_end", "s_round_mode", "s_denorm_mode", "s_setreg", "s_trap", "s_waitcnt_depctr", "s_wait_alu", "s_wait_idle")
TRANSCENDENTAL = re.compile(r"v_(s_)?(exp|log|rcp|rsq|sqrt|sin|cos)_|v_mul_(lo|hi)_[ui]32|v_mad_u64_u32|v_mad_co_u64_u32|v_div_")
FMA = re.compile(r"v_(dual_)?(pk_)?(fma|fmac|fmamk|fmaak|mad|mac|madmk|madak)_(mix(lo|hi)?_)?(legacy_|dx9_zero_)?(f32|f16|bf16|f64)$|v_(dual_)?dot\d")
MATRIX = re.compile(r"v_(?:mfma|smfmac|wmma|swmmac)_\w+?_(\d+)x(\d+)x(\d+)_?(?:(\d+)b_?)?(\w+)")
# Instructions with several small blocks, by M, K and type; newer names contain the number of blocks.
SMALL_K = {"f32": 1, "f16": 4, "bf16_1k": 4, "bf16": 2, "i8": 4}
COUNTERS = {"vmcnt": "load", "lgkmcnt": "local", "vscnt": "store", "loadcnt": "load", "dscnt": "local", "kmcnt": "scalar",
            "storecnt": "store", "samplecnt": "sample", "bvhcnt": "bvh", "expcnt": "export"}


def matrix_shape(name):
    """FLOPs of the wave, type and number of blocks of a matrix instruction."""
    m, n, k, blocks, kind = re.match(MATRIX, name).groups()
    m, n, k = int(m), int(n), int(k)
    dtype = {"iu8": "iu8", "iu4": "iu4", "u8": "iu8"}.get(kind, kind)
    if dtype.startswith(("fp8", "bf8")):
        dtype = "fp8"
    if not blocks and name.startswith("v_mfma") and SMALL_K.get(dtype) == k:
        blocks = {32: 2, 16: 4, 4: 16}[m]
    blocks = int(blocks or 1)
    return 2 * m * n * k * blocks, dtype, blocks


def lane_flops(name):
    if not FMA.match(name):
        return 0
    dot = re.search(r"dot(\d)", name)
    if dot:
        return 2 * int(dot[1])
    return 4 if "_pk_" in name else 2


def bytes_of(name):
    """The bytes that a lane moves, from the end of the name."""
    both = 2 if re.search(r"(read|write|load|store)_?(2|2st64|_2addr_|_2addr_stride64_|xchg2)", name) else 1
    for pattern, size in ((r"(b|x|u|i)128|dwordx4", 16), (r"b96|dwordx3", 12), (r"b64|dwordx2|u64|i64|f64", 8), (r"b32|dword|u32|i32|f32", 4),
                          (r"b16|u16|i16|short|f16", 2), (r"b8|u8|i8|byte", 1)):
        if re.search(pattern, name):
            return size * both
    return 4


def registers_in(operand):
    """The registers that an operand names: v3, s[4:7], a[0:15], vcc."""
    for kind, first, last, one in re.findall(r"\b([vsa])(?:\[(\d+):(\d+)\]|(\d+))\b", operand):
        for number in range(int(first or one), int(last or one) + 1):
            yield f"{kind}{number}"
    if "vcc" in operand:
        yield "vcc"


def waits_of(name, operands):
    text = ", ".join(operands)
    if name == "s_waitcnt":
        return {COUNTERS[counter]: int(count) for counter, count in re.findall(r"(\w+cnt)\((\d+)\)", text) if counter in COUNTERS}
    if name == "s_waitcnt_vscnt":
        return {"store": int(operands[-1], 0)}
    count = int(operands[0], 0)
    found = re.findall(r"(loadcnt|storecnt|dscnt|kmcnt|samplecnt|bvhcnt|expcnt)", name)
    if len(found) == 2:  # s_wait_loadcnt_dscnt: the first in the high byte
        return {COUNTERS[found[0]]: count >> 8, COUNTERS[found[1]]: count & 63}
    return {COUNTERS[one]: count for one in found}


def one_instruction(name, operands, text, wave, new_counters):
    made = Instruction(name, operands, "vector", text)
    if name.startswith(BRANCHES):
        made.kind, made.conditional = "branch", name.startswith("s_cbranch")
        made.target = operands[0] if operands else None
    elif name == "s_endpgm":
        made.kind = "end"
    elif re.match(r"s_wait(cnt|_(load|store|ds|km|sample|bvh|exp)cnt)", name) and not name.startswith(FREE):
        made.kind, made.waits = "wait", waits_of(name, operands)
    elif name.startswith("s_barrier"):
        made.kind = "free" if name.endswith("_signal") or "leave" in name else "barrier"
    elif name.startswith(FREE):
        made.kind = "free"
    elif re.match(r"s_(buffer_)?load", name):
        made.kind, made.counter = "scalar_load", "scalar" if new_counters else "local"
    elif name.startswith("s_"):
        made.kind = "scalar"
    elif name.startswith("ds_"):
        made.kind = "local_read" if re.match(r"ds_(read|load|append|consume|ordered)|ds_\w+_rtn", name) else "local_write"
        if re.match(r"ds_(permute|bpermute|swizzle)", name):
            made.kind = "shuffle"
        made.counter, made.bytes = "local", bytes_of(name)
    elif name.startswith("scratch_"):
        made.kind, made.counter, made.bytes = "scratch", "load" if "load" in name else "store", bytes_of(name)
    elif name.startswith(("global_", "buffer_", "flat_")):
        to_local = "_lds_" in name or any(re.search(r"\blds\b", o) for o in operands)
        made.kind = "copy" if to_local else "global_read" if "load" in name else "global_write"
        returns = "load" in name or any("glc" in o or "TH_ATOMIC_RETURN" in o for o in operands)
        made.counter, made.bytes = "load" if returns else "store", bytes_of(name)
    elif MATRIX.match(name):
        made.kind = "matrix"
        made.flops, made.dtype, _ = matrix_shape(name)
    elif TRANSCENDENTAL.match(name):
        made.kind = "transcendental"
    elif FMA.match(name):
        made.kind, made.flops = "fma", lane_flops(name) * wave
    stores = made.kind in ("local_write", "global_write", "branch", "wait", "free", "end", "barrier") or (
        made.kind == "scratch" and "store" in name)
    written = [] if stores or not operands else list(registers_in(operands[0]))
    if re.search(r"_co_|addc|subb|div_scale", name) and len(operands) > 3:
        written += registers_in(operands[1])
    made.writes = frozenset(written)
    accumulates = made.kind == "matrix" or "fmac" in name or "_mac" in name or "dot2c" in name
    made.reads = frozenset(r for o in (operands if stores or accumulates else operands[1:]) for r in registers_in(o))
    return made


def merged(parts, text):
    """A dual instruction (VOPD): two operations that are issued as one."""
    kinds = {part.kind for part in parts}
    made = Instruction(" :: ".join(part.name for part in parts), [], "fma" if "fma" in kinds else "vector", text)
    made.flops = sum(part.flops for part in parts)
    made.writes, made.reads = (frozenset().union(*(getattr(part, which) for part in parts)) for which in ("writes", "reads"))
    made.parts = tuple(parts)
    return made


def split_operands(text):
    """Commas within brackets do not separate; modifiers stay with the last operand."""
    return [part.strip() for part in re.split(r",(?![^\[(]*[\])])", text)] if text else []


def read_line(line, wave, new_counters):
    parts = []
    for half in line.split(" :: "):
        name, _, rest = half.strip().partition(" ")
        name = re.sub(r"_(e32|e64|dpp|dpp8|sdwa|e64_dpp|vi|gfx\d+)$", "", name)
        operands = split_operands(rest.strip())
        if len(operands) > 3:  # before GFX9 this name has a carry
            name = re.sub(r"^v_(add|sub|subrev)_u32$", r"v_\1_co_u32", name)
        parts.append(one_instruction(name, operands, line, wave, new_counters))
    return parts[0] if len(parts) == 1 else merged(parts, line)


def read(assembly):
    """The only kernel of an assembly file of clang."""
    def number(name, default=0):
        found = re.search(rf"\.{name}:?\s+(\d+)", assembly)
        return int(found[1]) if found else default

    kernel = re.search(r"\.amdhsa_kernel (\w+)", assembly)
    name = kernel[1] if kernel else "kernel"
    wave = number("wavefront_size", 64)
    new_counters = bool(re.search(r"--gfx12", assembly))
    program = Program(name, "amd", [], {}, wave)
    body = assembly.split(f"\n{name}:", 1)[-1]
    for line in body.splitlines():
        line = line.split(";")[0].split("//")[0].strip()
        if line.startswith((".section", ".end_amd", ".Lfunc_end")):
            break
        label = re.match(r"([.\w$]+):", line)
        if label:
            program.labels[label[1]] = len(program.instructions)
        elif line and not line.startswith("."):
            program.instructions.append(read_line(line, wave, new_counters))
    program.registers, program.scalars = number("vgpr_count"), number("sgpr_count")
    program.spills = number("vgpr_spill_count") + number("sgpr_spill_count")
    program.scratch, program.local = number("private_segment_fixed_size"), number("group_segment_fixed_size")
    program.items = number("max_flat_workgroup_size")
    return program
