"""AMD's integer instructions as functions of numbers, by their names without v_ or s_."""
from .walk import MASK, signed

U = lambda f: lambda *v: f(*v) & MASK


def bfe(x, at, width):
    return x >> (at & 31) & ((1 << min(width, 32)) - 1)


def bfe_signed(x, at, width):
    width = min(width, 32)
    return signed(bfe(x, at, width), width) & MASK if width else 0


# For 32-bit vectors and scalars alike, without v_ or s_ and the type's suffix where that does not matter.
PLAIN = {
    "mov_b32": lambda a: a, "accvgpr_write_b32": lambda a: a, "accvgpr_read_b32": lambda a: a, "accvgpr_mov_b32": lambda a: a, "not_b32": U(lambda a: ~a), "add_u32": U(lambda a, b: a + b), "add_nc_u32": U(lambda a, b: a + b),
    "add_i32": U(lambda a, b: a + b), "add_nc_i32": U(lambda a, b: a + b), "sub_u32": U(lambda a, b: a - b), "sub_i32": U(lambda a, b: a - b),
    "sub_nc_u32": U(lambda a, b: a - b), "subrev_u32": U(lambda a, b: b - a), "subrev_nc_u32": U(lambda a, b: b - a),
    "and_b32": lambda a, b: a & b, "or_b32": lambda a, b: a | b, "xor_b32": lambda a, b: a ^ b, "xnor_b32": U(lambda a, b: ~(a ^ b)),
    "andn2_b32": U(lambda a, b: a & ~b), "and_not1_b32": U(lambda a, b: a & ~b), "orn2_b32": U(lambda a, b: a | ~b),
    "or_not1_b32": U(lambda a, b: a | ~b),
    "lshlrev_b32": U(lambda a, b: b << (a & 31)), "lshrrev_b32": lambda a, b: b >> (a & 31),
    "ashrrev_i32": U(lambda a, b: signed(b) >> (a & 31)), "lshl_b32": U(lambda a, b: a << (b & 31)), "lshr_b32": lambda a, b: a >> (b & 31),
    "ashr_i32": U(lambda a, b: signed(a) >> (b & 31)), "and_or_b32": lambda a, b, c: a & b | c, "or3_b32": lambda a, b, c: a | b | c,
    "add3_u32": U(lambda a, b, c: a + b + c), "lshl_add_u32": U(lambda a, b, c: (a << (b & 31)) + c),
    "lshl_or_b32": U(lambda a, b, c: a << (b & 31) | c), "add_lshl_u32": U(lambda a, b, c: (a + b & MASK) << (c & 31)),
    "xad_u32": U(lambda a, b, c: (a ^ b) + c), "xor3_b32": lambda a, b, c: a ^ b ^ c, "bfe_u32": bfe, "bfe_i32": bfe_signed,
    "bfi_b32": U(lambda a, b, c: a & b | ~a & c), "mul_u32_u24": U(lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF)),
    "mul_i32_i24": U(lambda a, b: signed(a & 0xFFFFFF, 24) * signed(b & 0xFFFFFF, 24)),
    "mad_u32_u24": U(lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) + c),
    "mad_i32_i24": U(lambda a, b, c: signed(a & 0xFFFFFF, 24) * signed(b & 0xFFFFFF, 24) + c),
    "mul_lo_u32": U(lambda a, b: a * b), "mul_i32": U(lambda a, b: a * b), "mul_hi_u32": lambda a, b: a * b >> 32,
    "mul_hi_i32": U(lambda a, b: signed(a) * signed(b) >> 32), "min_u32": min, "max_u32": max,
    "min_i32": lambda a, b: min(a, b, key=signed), "max_i32": lambda a, b: max(a, b, key=signed),
    "med3_i32": lambda a, b, c: sorted((a, b, c), key=signed)[1], "med3_u32": lambda a, b, c: sorted((a, b, c))[1],
    "min3_u32": min, "max3_u32": max, "min3_i32": lambda *v: min(v, key=signed), "max3_i32": lambda *v: max(v, key=signed),
    "max_u16": lambda a, b: max(a & 0xFFFF, b & 0xFFFF), "min_u16": lambda a, b: min(a & 0xFFFF, b & 0xFFFF),
    "mul_lo_u16": lambda a, b: a * b & 0xFFFF, "lshrrev_b16": lambda a, b: (b & 0xFFFF) >> (a & 15),
    "lshlrev_b16": lambda a, b: b << (a & 15) & 0xFFFF, "add_nc_u16": lambda a, b: a + b & 0xFFFF, "add_u16": lambda a, b: a + b & 0xFFFF,
    "sub_nc_u16": lambda a, b: a - b & 0xFFFF, "sub_u16": lambda a, b: a - b & 0xFFFF, "and_b16": lambda a, b: a & b & 0xFFFF,
    "or_b16": lambda a, b: (a | b) & 0xFFFF, "mad_u16": lambda a, b, c: a * b + c & 0xFFFF,
    "ashrrev_i16": lambda a, b: signed(b & 0xFFFF, 16) >> (a & 15) & 0xFFFF, "alignbit_b32": U(lambda a, b, c: (a << 32 | b) >> (c & 31)), "sext_i32_i16": U(lambda a: signed(a & 0xFFFF, 16)),
    "sext_i32_i8": U(lambda a: signed(a & 0xFF, 8)), "bfm_b32": U(lambda a, b: (1 << (a & 31)) - 1 << (b & 31)),
    "abs_i32": U(lambda a: abs(signed(a))), "movk_i32": U(lambda a: signed(a & 0xFFFF, 16)), "pack_ll_b32_b16": lambda a, b: a & 0xFFFF | (b & 0xFFFF) << 16,
    "lshl1_add_u32": U(lambda a, b: (a << 1) + b), "lshl2_add_u32": U(lambda a, b: (a << 2) + b), "lshl3_add_u32": U(lambda a, b: (a << 3) + b),
    "lshl4_add_u32": U(lambda a, b: (a << 4) + b), "ff1_i32_b32": lambda a: (a & -a).bit_length() - 1 & MASK,
    "mad_u32_u16": U(lambda a, b, c: (a & 0xFFFF) * (b & 0xFFFF) + c), "cvt_u32_u16": lambda a: a & 0xFFFF,
    "perm_b32": lambda a, b, c: sum(((b | a << 32) >> 8 * (c >> 8 * n & 7) & 255 if c >> 8 * n & 255 < 8 else 0) << 8 * n for n in range(4)),
}
WIDE = {  # 64-bit results, from 64-bit operands except those in `narrow`
    "mov_b64": lambda a: a, "and_b64": lambda a, b: a & b, "or_b64": lambda a, b: a | b, "xor_b64": lambda a, b: a ^ b,
    "not_b64": lambda a: ~a, "andn2_b64": lambda a, b: a & ~b, "and_not1_b64": lambda a, b: a & ~b, "orn2_b64": lambda a, b: a | ~b,
    "or_not1_b64": lambda a, b: a | ~b, "lshl_b64": lambda a, b: a << (b & 63), "lshr_b64": lambda a, b: a >> (b & 63),
    "ashr_i64": lambda a, b: signed(a, 64) >> (b & 63), "lshlrev_b64": lambda a, b: b << (a & 63), "lshrrev_b64": lambda a, b: b >> (a & 63),
    "ashrrev_i64": lambda a, b: signed(b, 64) >> (a & 63), "add_u64": lambda a, b: a + b, "add_nc_u64": lambda a, b: a + b,
    "sub_u64": lambda a, b: a - b, "sub_nc_u64": lambda a, b: a - b, "mul_u64": lambda a, b: a * b, "lshl_add_u64": lambda a, b, c: (a << (b & 63)) + c,
    "mad_u64_u32": lambda a, b, c: a * b + c, "mad_co_u64_u32": lambda a, b, c: a * b + c,
}
NARROW = {"lshl_b64": (1,), "lshr_b64": (1,), "ashr_i64": (1,), "lshlrev_b64": (0,), "lshrrev_b64": (0,), "ashrrev_i64": (0,),
          "lshl_add_u64": (1,), "mad_u64_u32": (0, 1), "mad_co_u64_u32": (0, 1)}
COMPARE = {"eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lg": lambda a, b: a != b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
           "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b}
