#!/usr/bin/env python3
"""The prediction from machine code against numbers worked out by hand or published."""
import pathlib
import sys
import unittest
import unittest.mock

if sys.version_info < (3, 11):
    print("gpu_cost: needs Python 3.11, which reads TOML: skipped")
    sys.exit(77)

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE.parent.parent / "tools"))

from gpu_cost import amd, amd_lanes, banks, costs, goals, guesses, kernels, loops, occupancy, predict, rates, report, sass, sass_lanes, sass_maxwell, simulate, walk, wgmma  # noqa: E402
from gpu_cost.instruction import Instruction, Program, is_integer_arithmetic  # noqa: E402


MASK = walk.MASK


def listing(*rows):
    """The output of nvdisasm -hex for (text, stall, write barrier, barriers waited for) or a label."""
    lines = [".text.hand:"]
    for number, row in enumerate(rows):
        if isinstance(row, str):
            lines.append(f"{row}:")
            continue
        text, stall, barrier, wait = row if len(row) == 4 else (row[0], 1, None, ())
        bits = stall | (7 if barrier is None else barrier) << 5 | 7 << 8 | sum(1 << n for n in wait) << 11
        lines += [f"        /*{16 * number:04x}*/ {text} ;  /* 0x{0:016x} */", f"   /* 0x{bits << 41:016x} */"]
    return "\n".join(lines)


def program_of(chip, registers, items, local=0, wave=32):
    vendor = rates.chip(chip).vendor
    return Program("kernel", vendor, [], {}, wave, registers=registers, items=items, local=local)


class Goals(unittest.TestCase):
    def test_what_a_product_misses(self):
        def made(of_unit, matrix=1, spills=0, conflicts=0.0):
            return unittest.mock.Mock(of_unit=of_unit, share=of_unit, conflicts=conflicts, counts={"matrix": matrix}, program=unittest.mock.Mock(spills=spills))
        self.assertEqual(goals.missed("gfx1100", "wmma", "f16", made(0.85)), [])
        self.assertEqual(goals.missed("gfx1030", "fma", "f32", made(0.80, matrix=0)), [])
        for chip, dtype, one, finding in (("gfx1100", "bf16", made(0.84), "reaches 84 %"), ("sm_75", "f32", made(0.79), "reaches 79 %"),
                                          ("sm_90", "f16", made(1, matrix=0), "no matrix instruction"),
                                          ("gfx908", "f16", made(0.5, spills=3), "spills 3"),
                                          ("gfx908", "f16", made(0.5, conflicts=0.1), "bank conflicts"),
                                          ("gfx908", "f16", made(0.5, conflicts=None), "not known")):
            found = goals.missed(chip, "product", dtype, one)
            self.assertEqual(len(found), 1, found)
            self.assertIn(finding, found[0])
        # What is known to be missed is named, and a finding only if it gets worse.
        for chip, dtype, share in (("gfx906", "f16", 0.81), ("sm_90a", "bf16", 0.83)):
            self.assertEqual(goals.missed(chip, "product", dtype, made(share)), [])
            text, known = goals.speed_missed(chip, "product", dtype, made(share))
            self.assertTrue(known and "the goal is 85 %" in text, text)
            self.assertEqual(len(goals.missed(chip, "product", dtype, made(share - 0.02))), 1)
            self.assertEqual(goals.speed_missed(chip, "product", dtype, made(0.85)), ("", False))
        self.assertEqual(goals.missed("gfx1030", "dot2", "f16", made(0.85, matrix=0)), [])
        self.assertEqual(goals.missed("gfx942", "mfma attention 128x64", "f16", made(0.2, conflicts=0.1)), [])
        # Bytes that are turned may have conflicts, but not those that lie along k.
        self.assertEqual(goals.missed("gfx942", "mfma 256x128x64", "i8", made(0.8, conflicts=0.1)), [])
        self.assertEqual(goals.missed("gfx942", "B along k: mfma 128x128x64", "i8", made(0.8, conflicts=0.1)), ["bank conflicts"])


class Amd(unittest.TestCase):
    def test_bank_conflicts_bound_the_loop(self):
        text = (HERE / "conflicts.s").read_text()
        made = predict.predict(rates.chip("gfx1030"), amd.read(text), text, (32, 1, 1))
        self.assertEqual((made.counts["fma"], made.counts["local_read"], made.counts["wait"]), (8, 2, 1))
        self.assertEqual(made.flops, 8 * 32 * 2)
        # Local memory takes 1 cycle for adjacent words, 32 for words of one bank; both SIMDs of the CU use it.
        self.assertAlmostEqual(made.conflicts, 31 / 33)
        self.assertAlmostEqual(made.cycles / made.occupancy.waves, 2 * 33, delta=1)
        self.assertAlmostEqual(made.of_unit, 8 / 66, delta=0.002)
        self.assertEqual(made.bound, "local memory")

    def test_simds_without_a_wave_do_nothing(self):
        text = (HERE / "conflicts.s").read_text()
        def made(waves):
            program = amd.read(text)
            program.items, program.local = 32 * waves, 64 * 1024  # two groups on the four SIMDs of a WGP
            return predict.predict(rates.chip("gfx1030"), program, text, (32 * waves, 1, 1))
        self.assertEqual([made(waves).occupancy.mean for waves in (1, 2, 3, 4)], [0.5, 1, 1.5, 2])
        self.assertAlmostEqual(made(1).of_unit, made(2).of_unit / 2)
        self.assertAlmostEqual(made(3).of_unit, (made(2).of_unit + made(4).of_unit) / 2)
        self.assertEqual(made(3).occupancy.waves, 2)

    def test_a_kernel_without_arithmetic_has_no_share(self):
        text = "\t.amdgcn_target \"amdgcn-amd-amdhsa--gfx942\"\nk:\n\ts_mov_b32 s4, 1\n\ts_endpgm\n\t.amdhsa_kernel k\n .wavefront_size: 64\n"
        made = predict.predict(rates.chip("gfx942"), amd.read(text), text, (64, 1, 1))
        self.assertEqual((made.share, made.slow_share), (0, 0))

    def test_nested_loops_are_followed(self):
        text = (HERE / "nested.s").read_text()
        program = amd.read(text)
        self.assertEqual(loops.inner_loop(program).header, program.labels[".LBB0_2"])
        self.assertEqual(loops.pipeline_loop(program).header, program.labels[".LBB0_1"])
        made = predict.predict(rates.chip("gfx1100"), program, text, (256, 1, 1), "f16")
        self.assertEqual(made.counts["matrix"], 4)
        self.assertEqual(made.counts["fma"], 4)
        self.assertEqual((made.counts["global_read"], made.counts["local_write"], made.counts["barrier"]), (1, 1, 2))
        # A matrix instruction occupies the SIMD for 32 cycles, a dual one for 1.
        self.assertEqual(made.flops, 4 * 8192 + 4 * 32 * 4)
        self.assertAlmostEqual(made.busy["vector"] * made.cycles / made.occupancy.waves, 4 * 33 + 1, delta=0.01)
        # 32 lanes read 16 adjacent bytes each; eight waves of a group read and store.
        self.assertEqual(made.global_bytes, 512)
        self.assertEqual(made.local_bytes, 32 * 16 * 5)
        self.assertEqual(made.notes, [])

    def test_a_search_before_the_loop_is_left_and_a_wrong_guess_taken_back(self):
        # Both ask memory. The search goes round until a value is found; after the guess that stays, nothing is left to multiply.
        search = (".LBB0_8:\n\ts_load_b32 s9, s[4:5], 0x0\n\ts_cmp_lt_i32 s9, 4\n\ts_cbranch_scc1 .LBB0_9\n\ts_branch .LBB0_8\n"
                  ".LBB0_9:\n")
        guess = ("\ts_mov_b32 s10, 0\n\ts_load_b32 s9, s[4:5], 0x0\n\ts_cmp_lt_i32 s9, 4\n\ts_cbranch_scc1 .LBB0_7\n\ts_mov_b32 s10, 1\n"
                 ".LBB0_7:\n\ts_cmp_eq_i32 s10, 1\n\ts_cbranch_scc1 .LBB0_6\n")
        for before in (search, guess, search + guess):
            text = (HERE / "nested.s").read_text().replace(".LBB0_1:\n", before + ".LBB0_1:\n", 1)
            text = text.replace("\ts_endpgm\n", ".LBB0_6:\n\ts_endpgm\n", 1)
            made = predict.predict(rates.chip("gfx1100"), amd.read(text), text, (256, 1, 1), "f16")
            self.assertEqual(made.lost, "")
            self.assertEqual(made.counts["matrix"], 4)
            self.assertEqual(made.local_bytes, 32 * 16 * 5)

    def test_waves_that_read_the_same_need_it_once(self):
        chip = rates.chip("gfx1100")
        for mask, share in (("0x3ff", 1), ("31", 1 / 8)):  # each of 256 items reads its own data, or all waves of 32 read the same
            text = (HERE / "nested.s").read_text().replace("v_and_b32_e32 v0, 0x3ff, v0", f"v_and_b32_e32 v0, {mask}, v0")
            program = amd.read(text)
            loop = loops.pipeline_loop(program)
            trace, _ = predict.trace_of(chip, program, loop, text, (256, 1, 1))
            self.assertEqual(predict.fresh_share(chip, program, loop, text, (256, 1, 1), trace), share)

    def test_groups_that_read_the_same_later_share_it(self):
        chip = rates.chip("gfx1100")
        for shift, shared in ((0, True), (13, True), (20, False)):  # the next group begins 0, 2 or 256 iterations later
            start = f"\tv_lshlrev_b32_e32 v1, 4, v0\n\ts_lshl_b32 s8, s15, {shift}\n\tv_add_nc_u32_e32 v1, s8, v1\n"
            text = (HERE / "nested.s").read_text().replace("\tv_lshlrev_b32_e32 v1, 4, v0\n", start)
            program = amd.read(text)
            self.assertEqual(predict.groups_share(chip, program, loops.pipeline_loop(program), text, (256, 1, 1)), shared, shift)

    def test_matrix_instructions(self):
        # Cycles from AMD's matrix instruction calculator.
        for chip, name, cycles in (("gfx908", "v_mfma_f32_32x32x1f32", 64), ("gfx908", "v_mfma_f32_4x4x4f16", 8),
                                   ("gfx908", "v_mfma_f32_32x32x4bf16", 64), ("gfx90a", "v_mfma_f32_16x16x16bf16_1k", 32),
                                   ("gfx90a", "v_mfma_f32_32x32x4f16", 64), ("gfx942", "v_mfma_f32_32x32x8_f16", 32),
                                   ("gfx942", "v_mfma_f32_32x32x4_2b_f16", 64), ("gfx942", "v_mfma_f32_16x16x16_bf16", 16),
                                   ("gfx942", "v_mfma_i32_16x16x32_i8", 16), ("gfx942", "v_mfma_f32_16x16x32_fp8_fp8", 16),
                                   ("gfx942", "v_mfma_f32_16x16x4_f32", 32), ("gfx1100", "v_wmma_f32_16x16x16_bf16", 32),
                                   ("gfx1100", "v_wmma_i32_16x16x16_iu8", 32), ("gfx1201", "v_wmma_f32_16x16x16_f16", 16),
                                   ("gfx1201", "v_wmma_f32_16x16x16_fp8_fp8", 8)):
            instruction = amd.read_line(f"{name} v[0:7], v[8:9], v[10:11], v[0:7]", 64, False)
            self.assertEqual(costs.matrix_cycles(rates.chip(chip), instruction), cycles, f"{name} on {chip}")

    def test_long_matrix_instructions_take_as_long_as_short_ones(self):
        chip = rates.chip("gfx950")
        for kind in ("f16", "bf16"):
            cycles = [costs.matrix_cycles(chip, amd.read_line(f"v_mfma_f32_{shape}_{kind} v[0:3], v[4:7], v[8:11], v[0:3]", 64, False))
                      for shape in ("16x16x16", "16x16x32", "32x32x8", "32x32x16")]
            self.assertEqual(cycles, [16, 16, 32, 32], kind)
        # All units together reach the data sheet's 2500 and 5000 TFLOP/s.
        for kind, tflops in (("f16", 2500), ("fp8", 5000)):
            self.assertAlmostEqual(chip.units * chip.simds * predict.peak_of(chip, kind) * chip.clock / 1e12, tflops, delta=0.01 * tflops)

    def test_functions_of_three_bits(self):
        a, b, c = 0xF0F01234, 0xCCCC5678, 0xAAAA9ABC
        for table, result in ((0xF0, a), (0xCC, b), (0xAA, c), (0x6C, b ^ (a & c)), (0x36, (a | c) ^ b), (0x01, ~(a | b | c) & 0xFFFFFFFF)):
            self.assertEqual(amd_lanes.bits_by_table(table, a, b, c), result, hex(table))

    def test_one_wave_waits_for_its_own_results(self):
        chip = rates.chip("gfx1030")
        program = program_of("gfx1030", 8, 32)
        chain = [amd.read_line(f"v_fma_f32 v1, v2, v3, v1", 32, False) for _ in range(10)]
        steps = [(one, costs.cost_of(chip, program, one)) for one in chain]
        cycles = lambda waves: simulate.simulate(chip, steps, waves, 1)[0]
        self.assertEqual(cycles(1), 10 * chip.latency["vector"])
        self.assertAlmostEqual(cycles(5), 50, delta=1)  # five waves fill the SIMD
        self.assertAlmostEqual(cycles(8), 80, delta=1)
        # A single wave issues in one cycle of five at each step, and waits during the other four.
        self.assertAlmostEqual(sum(simulate.simulate(chip, steps, 1, 1)[1].values()), 0.8, delta=0.01)

    def test_waits_of_counters(self):
        self.assertEqual(amd.read_line("s_waitcnt vmcnt(3) lgkmcnt(1)", 32, False).waits, {"load": 3, "local": 1})
        self.assertEqual(amd.read_line("s_wait_loadcnt_dscnt 0x301", 32, True).waits, {"load": 3, "local": 1})

    def test_what_memory_instructions_move(self):
        for text, kind, size, parts in (("ds_read_b128 v[0:3], v4", "local_read", 16, 1), ("ds_read2_b32 v[0:1], v4 offset1:8", "local_read", 8, 2),
                                        ("ds_load_2addr_stride64_b64 v[0:3], v4 offset1:1", "local_read", 16, 2),
                                        ("ds_write_b16 v4, v5", "local_write", 2, 1), ("ds_bpermute_b32 v0, v1, v2", "shuffle", 4, 1),
                                        ("global_load_dwordx4 v[0:3], v4, s[2:3]", "global_read", 16, 1),
                                        ("global_load_u16 v0, v4, s[2:3]", "global_read", 2, 1), ("global_store_b96 v0, v[1:3], s[2:3]", "global_write", 12, 1),
                                        ("buffer_load_dword v0, s[4:7], 0 offen lds", "copy", 4, 1), ("scratch_load_b32 v0, off", "scratch", 4, 1)):
            made = amd.read_line(text, 32, False)
            self.assertEqual((made.kind, made.bytes, costs.instruction_parts(made)), (kind, size, parts), text)

    def test_parts_of_registers(self):
        text = "\t.amdgcn_target \"amdgcn-amd-amdhsa--gfx906\"\nk:\n\ts_mov_b32 s4, 0x12f4\n\tv_mov_b32_e32 v1, s4\n" \
               "\tv_add_u32_sdwa v2, sext(v1), v1 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_0 src1_sel:BYTE_1\n" \
               "\tv_lshlrev_b32_sdwa v3, v1, v1 dst_sel:WORD_1 dst_unused:UNUSED_PAD src0_sel:BYTE_1 src1_sel:DWORD\n" \
               "\ts_bfe_u32 s5, s4, 0x40008\n\ts_mov_b32 s6, 1\n\ts_bitset1_b32 s6, s5\n\ts_bitset1_b32 s6, 4\n\ts_bitset0_b32 s6, 0\n" \
               "\ts_endpgm\n\t.amdhsa_kernel k\n .wavefront_size: 64\n"
        machine = predict.machine_for(rates.chip("gfx906"), amd.read(text), text, (64, 1, 1))
        walk.walk(amd.read(text), machine, None)
        self.assertEqual(machine.registers["v2"], 0x12 - 12)
        self.assertEqual(machine.registers["v3"], (0x12f4 << 0x12 & 0xFFFF) << 16)
        self.assertEqual(machine.registers["s5"], 2)
        self.assertEqual(machine.registers["s6"], 0b10100)

    def test_sums_of_carries(self):
        # 64-bit addition in each lane, as for addresses. Before GFX9 the name does not say that there is a carry.
        for chip, wave, low, high, carry in (("gfx1100", 32, "v_add_co_u32", "v_add_co_ci_u32_e32", "vcc_lo"),
                                             ("gfx803", 64, "v_add_u32_e32", "v_addc_u32_e32", "vcc")):
            text = f"\t.amdgcn_target \"amdgcn-amd-amdhsa--{chip}\"\nk:\n\t{low} v1, {carry}, -1, v0\n" \
                   f"\t{high} v2, {carry}, 5, v3, {carry}\n\ts_endpgm\n\t.amdhsa_kernel k\n .wavefront_size: {wave}\n"
            program = amd.read(text)
            machine = predict.machine_for(rates.chip(chip), program, text, (wave, 1, 1))
            machine.registers["v3"] = 0
            walk.walk(program, machine, None)
            self.assertEqual(machine.registers["v1"][:3], [0xFFFFFFFF, 0, 1], chip)
            self.assertEqual(machine.registers["v2"][:3], [5, 6, 6], chip)

    def test_conditions_of_scalars(self):
        """Each instruction after a comparison that holds: the value of SCC then, or None if it is not worked out."""
        for line, scc in (("s_add_nc_u64 s[6:7], s[4:5], 0", 1), ("s_sub_nc_u64 s[6:7], s[4:5], 0", 1), ("s_mul_u64 s[6:7], s[4:5], 0", 1),
                          ("s_mul_i32 s6, s4, 0", 1), ("s_mov_b32 s6, 0", 1), ("s_mov_b64 s[6:7], 0", 1), ("s_and_b64 s[6:7], s[4:5], 0", 0),
                          ("s_lshr_b32 s6, s4, 31", 0), ("s_min_i32 s6, s4, 9", 1), ("s_min_i32 s6, s4, -9", 0), ("s_max_u32 s6, s4, 9", 0),
                          ("s_min_u32 s6, s4, s4", 0), ("s_addk_i32 s6, 0x1", None), ("s_lshl2_add_u32 s6, s4, 0", None), ("s_mulk_i32 s6, 0x2", 1)):
            text = f"\t.amdgcn_target \"amdgcn-amd-amdhsa--gfx1201\"\nk:\n\ts_mov_b32 s4, 5\n\ts_mov_b32 s5, 3\n\ts_mov_b32 s6, 1\n\ts_cmp_eq_u32 s4, 5\n" \
                   f"\t{line}\n\ts_endpgm\n\t.amdhsa_kernel k\n .wavefront_size: 32\n"
            machine = predict.machine_for(rates.chip("gfx1201"), amd.read(text), text, (32, 1, 1))
            walk.walk(amd.read(text), machine, None)
            self.assertEqual(machine.registers["scc"], scc, line)
            if "add_nc" in line:
                self.assertEqual((machine.registers["s6"], machine.registers["s7"]), (5, 3))


class Nvidia(unittest.TestCase):
    def text(self, multiplications=16):
        rows = [("S2R R0, SR_TID.X", 1, 0, ()), ("MOV R9, 0x0",), ("IMAD.SHL.U32 R1, R0, 0x10, RZ", 5, None, (0,)), ".L_x_1",
                ("LDS.128 R4, [R1]", 1, 1, ()), ("IADD3 R9, R9, 0x1, RZ", 5, None, ()),
                ("ISETP.GE.AND P0, PT, R9, 0x20, PT", 1, None, ())]
        rows += [(f"FFMA R{n}, R4, R5, R{n}", 1, None, (1,) if n == 10 else ()) for n in range(10, 10 + multiplications)]
        rows += [("@!P0 BRA `(.L_x_1)", 5, None, ()), ("EXIT",)]
        return listing(*rows)

    def predicted(self, chip, multiplications=16, registers=32, items=256):
        text = self.text(multiplications)
        program = sass.read(text)
        program.registers, program.items = registers, items
        return predict.predict(rates.chip(chip), program, text, (items, 1, 1))

    def test_loop_and_its_counts(self):
        made = self.predicted("sm_80")
        self.assertEqual((made.counts["fma"], made.counts["local_read"], made.counts["branch"]), (16, 1, 1))
        self.assertEqual(made.flops, 16 * 64)
        self.assertEqual((made.local_bytes, made.conflicts, made.notes), (512, 0.0, []))
        # GA100 has 16 FMA lanes in a sub-partition, so 16 FFMA take 32 cycles. An LDS.128 takes 4, and all four sub-partitions use it.
        # Other warps' instructions may take the slot in which the next FFMA could go: one cycle of 33.
        self.assertAlmostEqual(made.cycles / made.occupancy.waves, 32, delta=1.01)
        self.assertGreater(made.of_unit, 0.96)
        self.assertEqual(made.bound, "FMA unit")

    def test_issue_bounds_where_a_multiplication_takes_one_cycle(self):
        made = self.predicted("sm_86", 64)  # 64 FFMA and 4 other instructions
        self.assertAlmostEqual(made.of_unit, 64 / 68, delta=0.015)

    def test_control_bits(self):
        # MOV R1, c[0x0][0x28] from a program of CUDA 11: stall 2, no barriers.
        control = sass.control_of(0x000fc40000000f00)
        self.assertEqual((control.stall, control.write_barrier, control.read_barrier, control.wait), (2, None, None, ()))
        # S2R: stall 1, sets barrier 0; then an instruction that waits for barrier 0.
        self.assertEqual(sass.control_of(0x000e220000002100).write_barrier, 0)
        self.assertEqual(sass.control_of(0x001fca00078e00ff).wait, (0,))

    def test_matrix_shapes(self):
        self.assertEqual(sass.matrix_shape("HMMA.16816.F32.BF16"), (4096, "bf16"))
        self.assertEqual(sass.matrix_shape("HMMA.1688.F32.TF32"), (2048, "tf32"))
        self.assertEqual(sass.matrix_shape("HGMMA.64x256x16.F32"), (2 * 64 * 256 * 16 // 4, "f16"))
        # A100: 312 TFLOP/s over 108 SMs at 1.41 GHz are 2048 FLOPs per cycle and SM, so 8 cycles of a sub-partition.
        instruction = sass.one_instruction("HMMA.16816.F32 R0, R4, R8, R0", 0)
        self.assertEqual(costs.matrix_cycles(rates.chip("sm_80"), instruction), 8)

    def test_peaks_of_bytes(self):
        def peak(chip, dtype):
            return predict.peak_of(rates.chip(chip), dtype)
        # A sum of four products is an instruction like an FMA, which is one; matrix units have rates of their own.
        self.assertEqual(peak("gfx1030", "i8"), 4 * peak("gfx1030", "f32"))
        self.assertEqual(peak("gfx1100", "i8"), peak("gfx1100", "f16"))  # 123 TOPS and TFLOP/s of an RX 7900 XTX
        self.assertEqual(peak("sm_75", "i8"), 2 * peak("sm_75", "f16"))  # T4: 130 TOPS, 65 TFLOP/s
        self.assertEqual(peak("sm_89", "f8e4m3"), 2 * peak("sm_89", "f16"))

    def test_constants_in_halves(self):
        text = listing(("HFMA2.MMA R5, -RZ, RZ, 1.875, 0",), ("LOP3.LUT R6, R5, 0xffff, RZ, 0x3c, !PT",), ("EXIT",))
        program = sass.read(text)
        machine = predict.machine_for(rates.chip("sm_86"), program, text, (32, 1, 1))
        walk.walk(program, machine, None)
        self.assertEqual(machine.registers["R5"], 0x3F800000)
        self.assertEqual(machine.registers["R6"], 0x3F80FFFF)

    def test_a_sum_with_a_shifted_number_that_has_a_sign(self):
        # Numbers divided by 128, as compilers divide by constants, and twice one of 64 bits.
        text = listing(("MOV R1, 0xfffffe80",), ("MOV R2, 0x180",), ("MOV R3, 0x5",), ("LEA.HI.SX32 R4, R1, R3, 0x19",),
                       ("LEA.HI.SX32 R5, R2, R3, 0x19",), ("LEA.HI R6, R1, RZ, R3, 0x1",), ("EXIT",))
        program = sass.read(text)
        machine = predict.machine_for(rates.chip("sm_86"), program, text, (32, 1, 1))
        walk.walk(program, machine, None)
        self.assertEqual([machine.registers[f"R{n}"] for n in (4, 5, 6)], [2, 8, 11])

    def test_the_loop_that_runs_most_is_taken(self):
        # A peeled first iteration with more arithmetic is in the loop over tiles, around the loop over k.
        rows = [".L_x_0", *[("FFMA R1, R2, R3, R1",)] * 40, ".L_x_1", *[("FFMA R1, R2, R3, R1",)] * 8, ("@P0 BRA `(.L_x_1)", 5, None, ()),
                ("@P1 BRA `(.L_x_0)", 5, None, ()), ("EXIT",)]
        program = sass.read(listing(*rows))
        self.assertEqual([len(loop.body) for loop in loops.find_loops(program)], [9, 50])
        self.assertEqual(loops.inner_loop(program).header, program.labels[".L_x_1"])

    def test_wgmma_reads_local_memory(self):
        # 64x256x16 in bf16: four warps read 8 KiB of B and 2 KiB of A, at 128 bytes per cycle; 131072 FLOPs per warp.
        chip = rates.chip("sm_90")
        instruction = sass.one_instruction("HGMMA.64x256x16.F32.BF16 R24, gdesc[UR20], R24, gsb0", 0)
        cost = costs.cost_of(chip, program_of("sm_90", 168, 384), instruction)
        self.assertEqual((cost.issue["matrix"], cost.queued["local"]), (128, 80))

    def test_factors_that_a_loop_overwrites(self):
        # R8 is loaded before the loop. In the first, packed weights overwrite it; in the second they have registers of their own.
        def findings(weights):
            rows = [("LDSM.16.M88.4 R8, [R1]",), ".L_x_0", ("HGMMA.64x64x16.F32 R24, R8, gdesc[UR8], RZ, !UPT, gsb0",),
                    (f"F2FP.F16.F32.PACK_AB R{weights}, R24, R25",),
                    (f"HGMMA.64x64x16.F32 R56, R{weights - 1}, gdesc[UR8].tnspB, R56, gsb0",), ("@P0 BRA `(.L_x_0)", 5, None, ()), ("EXIT",)]
            return wgmma.forgotten_factors(sass.read(listing(*rows)))
        self.assertEqual([text.split(",")[1].strip() for text in findings(9)], ["R8"])
        self.assertEqual(findings(13), [])
        for text, registers in (("SHFL.BFLY PT, R4, R6, 0x1, 0x1f", [4]), ("CS2R R6, SRZ", [6, 7]), ("CS2R.32 R6, SRZ", [6]),
                                ("LDSM.16.M88.4 R8, [R1]", [8, 9, 10, 11]), ("STS [R2], R3", [])):
            self.assertEqual(list(wgmma.results(sass.one_instruction(text, 0))), registers, text)

    def test_reads_of_more_than_a_word_that_lanes_share(self):
        chip = rates.chip("sm_80")
        pairs = [16 * (n // 2) for n in range(32)]  # neighbouring lanes read the same 16 bytes
        self.assertEqual(banks.local_cycles(chip, pairs, 16)[0], 2)
        self.assertEqual(banks.local_cycles(chip, pairs, 16, is_read=False)[0], 4)
        self.assertEqual(banks.local_cycles(rates.chip("gfx1100"), pairs, 16)[0], 4)

    def test_the_first_lane_that_is_active_is_elected_and_copies_have_arrived(self):
        machine = sass_lanes.Machine(program_of("sm_90", 32, 32), (32, 1, 1), "sm_90")
        machine.active = [0, 0] + [1] * 30
        for text in ("ELECT P2, URZ, PT", "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR8], R3"):
            machine.run(sass.one_instruction(text, 0))
        self.assertEqual(machine.predicates["P2"][2:], [1] + [0] * 29)
        self.assertEqual(machine.predicates["P0"][2:], [1] * 30)
        self.assertFalse(machine.missing)

    def test_what_never_runs_costs_nothing(self):
        self.assertEqual(sass.one_instruction("@!PT LDS RZ, [RZ]", 0).kind, "free")
        self.assertEqual(sass.one_instruction("SHFL.BFLY PT, R1, R2, 0x1, 0x1f", 0).kind, "shuffle")


class Maxwell(unittest.TestCase):
    """Code of chips before sm_70, as nvdisasm 12.4 prints it."""
    # The beginning of a kernel for sm_61, shortened. The third instruction issues with the second.
    TEXT = """
	.text.kernel:
                                                                                /* 0x001c7c00fe0007f6 */
        /*0008*/                   MOV R1, c[0x0][0x20] ;                       /* 0x4c98078000870001 */
        /*0010*/         {         MOV32I R29, 0xfffff080 ;                     /* 0x010fffff0807f01d */
        /*0018*/                   S2R R27, SR_CTAID.X         }
                                                                                /* 0xf0c800000257001b */
                                                                                /* 0x001f9800e2c00ff0 */
        /*0028*/                   SHR R0, R27, 0x1f ;                          /* 0x3829000001f71b00 */
        /*0030*/               @P0 EXIT ;                                       /* 0xe30000000000000f */
"""

    def test_scheduling_of_each_instruction(self):
        program = sass_maxwell.read(self.TEXT)
        self.assertEqual([i.name for i in program.instructions], ["MOV", "MOV32I", "S2R", "SHR", "EXIT"])
        controls = [i.control for i in program.instructions]
        # 0x001c7c00fe0007f6 in fields of 21 bits: 0x0007f6, 0x0007f0, 0x00071f.
        self.assertEqual([c.stall for c in controls[:3]], [6, 0, 15])
        self.assertEqual([c.paired for c in controls], [False, False, True, False, False])
        self.assertEqual(controls[0].write_barrier, None)
        self.assertEqual(controls[2].write_barrier, 0)  # the group's number arrives later
        # 0x001f9800e2c00ff0: its first two fields are 0x000ff0 and 0x000716.
        self.assertEqual([(c.stall, c.write_barrier) for c in controls[3:]], [(0, None), (6, 0)])

    def arithmetic(self, *texts):
        machine = sass_lanes.MaxwellMachine(program_of("sm_61", 32, 32), (32, 1, 1), "sm_61")
        for text in texts:
            machine.run(sass.one_instruction(text, 0))
        self.assertFalse(machine.missing)
        return machine

    def test_products_of_32_bits_from_halves(self):
        a, b, c = 0x12345678, 0x9ABCDEF1, 0x11111111
        made = self.arithmetic(f"MOV32I R1, {a:#x}", f"MOV32I R2, {b:#x}", f"MOV32I R3, {c:#x}", "XMAD.MRG R4, R1, R2.H1, RZ",
                               "XMAD R5, R1, R2, R3", "XMAD.PSL.CBCC R6, R1.H1, R4.H1, R5")
        self.assertEqual(made.registers["R6"], a * b + c & 0xFFFFFFFF)

    def test_integers(self):
        made = self.arithmetic("MOV32I R1, 0xffffff85", "SHR R2, R1, 0x2", "SHR.U32 R3, R1, 0x1c", "SHL R4, R1, 0x1f", "ISCADD R5, R1, 0x100, 0x1",
                               "BFE R6, R1, 0x804", "BFE.U32 R7, R1, 0x804", "LOP.AND R8, R1, 0xf0", "LOP.PASS_B R9, RZ, ~R1",
                               "IADD32I R10, R1, 0x7b", "ISETP.LT.AND P0, PT, R1, RZ, PT", "ISET.BF.LT.AND R11, R1, RZ, PT",
                               "PSETP.AND.AND P1, P2, P0, !P0, PT", "BFI R12, R1, 0x404, RZ",
                               "SHL.W R13, R1, 0x21", "SHR.W R14, R1, 0x24", "LOP.AND.NZ P3, RZ, R1, 0x80", "LOP.AND.Z P4, R15, R1, 0x80",
                               "BFE R16, R1, 0x81c", "XMAD.U16.S16 R17, R1, R1.H1, RZ", "SHF.L.U64 R18, R1, 0x4, RZ",
                               "IADD3.RS R19, R1, R1, 0x1")
        values = [made.registers[f"R{n}"] for n in range(2, 13)]
        self.assertEqual(values, [0xFFFFFFE1, 15, 0x80000000, 0xA, 0xFFFFFFF8, 0xF8, 0x80, 0x7A, 0, 0x3F800000, 0x50])
        self.assertEqual([made.predicates[f"P{n}"] for n in range(1, 5)], [0, 1, 1, 0])
        more = [made.registers[f"R{n}"] for n in range(13, 20)]
        self.assertEqual(more, [0xFFFFFF0A, 0xFFFFFFF8, 0x80, 0xFFFFFFFF, -0xFF85 & MASK, 0xF, 0x20000])

    def test_arguments_and_extents_in_bank_0(self):
        made = self.arithmetic("MOV R1, c[0x0][0x8]", "MOV R2, c[0x0][0x140]", "MOV R3, c[0x0][0x148]")
        self.assertEqual(made.registers["R1"], 32)
        self.assertNotEqual(made.registers["R2"], made.registers["R3"])

    def test_a_whole_kernel(self):
        text = (HERE / "divide.sass").read_text()
        program = sass_maxwell.read(text)
        machine = sass_lanes.MaxwellMachine(program, (32, 1, 1), "sm_61")
        trace = walk.walk(program, machine, None)
        stored = next(addresses.globals for at, addresses in trace.steps if program.instructions[at].kind == "global_write")
        first = walk.address_of_argument(0)
        numbers = [lane * 3001 - 40000 for lane in range(32)]
        wanted = [first + 4 * ((int(i / 768) + 100) * 5 + (i >> 3 & 1) + (i + 40000) % 7) for i in numbers]
        known = [(have, want) for have, want in zip(stored, wanted) if have is not None]
        self.assertEqual(len(known), sum(i >= 0 for i in numbers))  # how a product of negative halves is mended is not published
        for have, want in known:
            self.assertEqual(have, want)
        self.assertFalse(machine.missing)

    def test_numbers_of_64_bits(self):
        # 0x1_0000_0002 - 3 in two words, and comparisons of 5 with 5 and 6, and of 0x1_0000_0000 with 5.
        made = self.arithmetic("MOV32I R1, 0x2", "MOV32I R2, 0x1", "MOV32I R9, 0x3", "IADD R3.CC, R1, -R9", "IADD.X R4, R2, -RZ",
                               "MOV32I R5, 0x5", "IADD32I RZ.CC, R5, -0x5", "ISETP.GT.X.AND P0, PT, RZ, RZ, PT",
                               "ISETP.GE.X.AND P1, PT, RZ, RZ, PT", "IADD32I RZ.CC, R5, -0x6", "ISETP.GE.X.AND P2, PT, RZ, RZ, PT",
                               "IADD32I RZ.CC, RZ, -0x5", "ISETP.GT.X.AND P3, PT, R2, RZ, PT")
        self.assertEqual((made.registers["R3"], made.registers["R4"]), (MASK, 0))
        self.assertEqual([made.predicates[f"P{n}"] for n in range(4)], [0, 1, 0, 1])

    def test_what_is_not_known_has_no_value(self):
        made = self.arithmetic("MOV32I R1, 0xfffffff6", "BFE.U32.BREV R2, R1, 0x2000", "IMNMX.XLO R3, R1, RZ, PT",
                               "XMAD.S16.S16.CSFU R4, R1.H1, R1.H1, RZ", "XMAD R5.CC, R1, R1, RZ", "IADD.X R6, R1, RZ")
        self.assertEqual([made.registers[f"R{n}"] for n in range(2, 7)], [None] * 5)

    def test_sync_goes_where_the_last_ssy_says(self):
        sync = """SYNC (*"BRANCH_TARGETS .L_x_{}"*) ;"""
        rows = ["SSY `(.L_x_2) ;", "@P0 " + sync.format(2), "SSY `(.L_x_1) ;", sync.format(1), ".L_x_1:", "FADD R0, R0, R1 ;",
                sync.format(2), ".L_x_2:", "EXIT ;"]
        lines, at = [], 0
        for row in rows:
            if row.startswith(".L"):
                lines.append(row)
                continue
            if at % 32 == 0:
                lines.append("  /* 0x001fc000fe0007f0 */")
                at += 8
            lines.append(f"        /*{at:04x}*/    {row}    /* 0x{0:016x} */")
            at += 8
        program = sass_maxwell.read("\n".join(lines))
        targets = [(i.target, i.conditional) for i in program.instructions if i.kind == "branch"]
        self.assertEqual(targets, [(".L_x_2", True), (".L_x_1", False), (".L_x_2", False)])

    def test_a_pair_takes_one_slot_and_lanes_serve_floats_and_integers(self):
        chip = rates.chip("sm_61")
        program = sass_maxwell.read(self.TEXT)
        cost = [costs.cost_of(chip, program_of("sm_61", 32, 256), i).issue for i in program.instructions]
        self.assertEqual((cost[1]["issue"], cost[2].get("issue")), (1, 0))
        self.assertEqual((cost[0]["fma"], cost[3]["fma"]), (1, 2))  # a move, a shift
        self.assertEqual(costs.cost_of(rates.chip("sm_70"), program_of("sm_70", 32, 256), program.instructions[3]).issue["alu"], 2)


class Integers(unittest.TestCase):
    def test_addresses_and_counters_are_told_from_moves_and_conversions(self):
        def counted(names, kind="vector"):
            return [is_integer_arithmetic(Instruction(name, [], kind)) for name in names.split()]
        self.assertTrue(all(counted("v_add_nc_u32_e32 v_lshl_add_u32 v_add_co_ci_u32_e64 s_lshl_b64 IADD3.X LEA.HI UIADD3 ISETP.GE.AND VIADD XMAD.PSL")))
        self.assertFalse(any(counted("v_mov_b32_e32 v_perm_b32 v_cvt_f32_f16_e32 v_max_f32_e32 v_pk_mul_f16 IMAD.MOV.U32 PRMT FADD F2FP.BF16")))
        self.assertFalse(any(counted("v_add_u32_e32", "local_read")))


class Boxes(unittest.TestCase):
    TEXT = "  ARRIVAL_EXPECT(arrivals + write, 49152);\n  COPY_BOX(a, to, 0);\n  COPY_BOX(b, to, 0);\n}\nARRIVAL_EXPECT(x, 7);\n"

    def test_a_copy_moves_its_share_of_what_its_arrival_expects(self):
        self.assertEqual(kernels.bytes_of_a_box(self.TEXT), 24576)
        self.assertEqual(kernels.bytes_of_a_box("COPY_BOX(a, to, 0);"), 0)

    def test_each_wave_of_the_group_takes_a_part(self):
        chip = rates.chip("sm_90a")
        program = program_of("sm_90a", 32, 128)
        program.box_bytes = 24576
        copy = sass.read(listing(("UTMALDG.4D [UR8], [UR4], desc[UR6]", 1))).instructions[0]
        cost = costs.cost_of(chip, program, copy)
        self.assertAlmostEqual(cost.queued["L2"], 24576 / 4 / chip.l2_bytes_cycle * chip.simds)


class Rates(unittest.TestCase):
    def test_rates_give_the_published_peaks(self):
        # The clock follows from the f32 peak; NVIDIA's largest cards use a lower clock for matrix units.
        for name in rates.known_chips():
            chip = rates.chip(name)
            for dtype, column in (("f16", "fp16_matrix_tflops_dense_fp32acc"), ("bf16", "bf16_matrix_tflops_dense")):
                published = float(rates.cards()[chip.card][column])
                rate = max(chip.matrix.get(dtype, 0), chip.matrix.get(dtype + "_1k", 0))
                peak = rate * chip.simds * chip.units * chip.clock / 1e12
                self.assertAlmostEqual(peak, published, delta=0.15 * published, msg=f"{name} {dtype}")


class Table(unittest.TestCase):
    def setUp(self):
        text = (HERE / "nested.s").read_text()
        self.made = predict.predict(rates.chip("gfx1100"), amd.read(text), text, (256, 1, 1), "f16")

    def test_a_row(self):
        row = dict(zip((name for name, _ in report.COLUMNS), report.cells("gfx1100", "nested", "f16", self.made)))
        self.assertEqual((row["math"], row["r/w"], row["glob"], row["regs"], row["KiB"], row["meas"]), ("4 mma", "4/1", "1", "32", "0.5", ""))
        self.assertLessEqual(len(report.line(row.values())), 120)
        self.assertLessEqual(sum(width + 1 for _, width in report.COLUMNS), 121)

    def test_what_was_measured_stands_beside_it(self):
        with unittest.mock.patch.object(report, "measured", lambda: {("gfx1100", "nested", "f16"): (61.4, 122.8)}):
            self.assertEqual(report.cells("gfx1100", "nested", "f16", self.made)[-1], "50%")
            self.assertIn("| 50% |", report.markdown([("gfx1100", "nested", "f16", self.made)]))
        self.assertIn("|  |", report.markdown([("gfx1100", "nested", "f16", self.made)]))
        self.assertEqual(report.measured()[("sm_90a", "fma 16x32 128x128x8", "f32")], (47.66, 66.9))


class Guesses(unittest.TestCase):
    def setUp(self):
        self.chip = rates.chip("gfx1100")
        text = (HERE / "nested.s").read_text()
        self.made = predict.predict(self.chip, amd.read(text), text, (256, 1, 1), "f16")

    def launch(self, groups, scratch=0, size=0, name="gemm_tiles", **parameters):
        entry = {"launch": name, "groups": groups, "batch": 1, "m": 1000, "n": 300, "k": 1000, "bytes": size, "scratch_bytes": scratch,
                 "problem": "one", "dtype": "f16", "kernel": "k", "local_bytes": 0, "file": "k.s", "candidate": 0, "parameters": parameters}
        return guesses.Launch(entry, unittest.mock.Mock(prediction=lambda chip: self.made, title="k"))

    def test_rounds_of_groups(self):
        def seconds(groups):
            return guesses.seconds_of(self.chip, self.made, groups, 1e6)
        units = self.chip.units // 2  # a group is on both units of a WGP
        full = self.made.occupancy.groups * units
        self.assertAlmostEqual(seconds(2 * full), 2 * seconds(full))
        # The last round takes as long with one group as with one on each WGP, and less than a full one.
        self.assertGreater(seconds(full + units), seconds(full))
        self.assertLess(seconds(full + units), 2 * seconds(full))
        self.assertLessEqual(seconds(full + 1), seconds(full + units))

    def test_arithmetic_of_a_group(self):
        # Tiles reach past the result, and so does their last step along k.
        tiles = {"tile_m": 128, "tile_n": 64, "tile_k": 32, "splits": 3}
        self.assertEqual(self.launch(8, **tiles).flops_of_group(), 2 * 128 * 64 * 352)
        self.assertEqual(self.launch(48, **tiles, streams=48).flops_of_group(), 2 * 1000 * 300 * 1000 / 48)
        self.assertEqual(self.launch(10).flops_of_group(), 2 * 1000 * 300 * 1000 / 10)

    def test_a_candidate_moves_its_operands_and_parts(self):
        def seconds(*launches):
            return guesses.candidate_seconds("gfx1100", launches)
        alone = seconds(self.launch(96))
        second = self.launch(1, name="sum_of_parts")
        bandwidth = 960e9
        self.assertAlmostEqual(seconds(self.launch(96, scratch=960), second), alone + guesses.LAUNCH + 2e-9)
        self.assertAlmostEqual(seconds(self.launch(96, size=bandwidth)), 1 + guesses.LAUNCH)

    def test_regret(self):
        listing = [self.launch(1).entry | {"candidate": at} for at in (0, 0, 1, guesses.CANDIDATES)]
        ((problem, dtype, candidates),) = guesses.problems_of(HERE, listing, lambda kernel: kernel)
        self.assertEqual((problem, dtype, [len(one) for one in candidates]), ("one", "f16", [2, 1]))
        self.assertEqual(guesses.Guess("one", "f16", [(3.0, "a"), (2.0, "b")], []).regret, 0.5)
        with unittest.mock.patch.object(guesses, "candidate_seconds", side_effect=ValueError("spills")):
            self.assertEqual(len(guesses.guess("gfx1100", problem, dtype, [[self.launch(1)]]).findings), 1)


class Banks(unittest.TestCase):
    def test_conflicts(self):
        chip = rates.chip("sm_80")
        cycles = lambda addresses, size: banks.local_cycles(chip, addresses, size)[0]
        self.assertEqual(cycles([4 * n for n in range(32)], 4), 1)
        self.assertEqual(cycles([8 * n for n in range(32)], 4), 2)   # every second bank, each twice
        self.assertEqual(cycles([4 * 33 * n for n in range(32)], 4), 1)  # a padded column
        self.assertEqual(cycles([128 * n for n in range(32)], 4), 32)
        self.assertEqual(cycles([0] * 32, 4), 1)  # all lanes read the same word
        self.assertEqual(cycles([16 * n for n in range(32)], 16), 4)
        self.assertEqual(cycles([4 * n if n < 8 else None for n in range(32)], 4), 1)

    def test_sectors(self):
        self.assertEqual(banks.global_bytes([4 * n for n in range(32)], 4, 32), 128)
        self.assertEqual(banks.global_bytes([4096 * n for n in range(32)], 4, 32), 1024)
        self.assertEqual(banks.global_bytes([16 + 4 * n for n in range(8)], 4, 32), 64)  # across the edge of a sector


class Occupancy(unittest.TestCase):
    def waves(self, chip, *about):
        return occupancy.occupancy(rates.chip(chip), program_of(chip, *about)).waves

    def test_nvidia_published_example(self):
        # CUDA C++ Best Practices Guide, 10.2: 37 registers; 128 threads: 12 blocks, 75 %; 320 threads: 4 blocks, 63 %.
        held = occupancy.occupancy(rates.chip("sm_80"), program_of("sm_80", 37, 128))
        self.assertEqual((held.groups, held.waves / held.most), (12, 0.75))
        held = occupancy.occupancy(rates.chip("sm_80"), program_of("sm_80", 37, 320))
        self.assertEqual((held.groups, held.waves / held.most), (4, 0.625))

    def test_nvidia_local_memory(self):
        # CUDA guide: an SM of compute capability 8.6 has 100 KB, and each block takes 1 KB more than it asks for.
        held = occupancy.occupancy(rates.chip("sm_86"), program_of("sm_86", 32, 128, 48 * 1024))
        self.assertEqual((held.groups, held.limit), (2, "local memory"))
        held = occupancy.occupancy(rates.chip("sm_86"), program_of("sm_86", 32, 128, 50 * 1024))
        self.assertEqual(held.groups, 1)

    def test_amd_as_llvm_says(self):
        # The "; Occupancy:" that clang 19 prints for kernels with this many registers.
        for chip, registers, wave, waves in (("gfx906", 108, 64, 2), ("gfx942", 108, 64, 4), ("gfx1100", 108, 32, 12), ("gfx90a", 128, 64, 4),
                                             ("gfx90a", 129, 64, 3), ("gfx1030", 128, 32, 8), ("gfx1030", 129, 32, 7), ("gfx906", 24, 64, 10),
                                             ("gfx1100", 96, 32, 16), ("gfx1100", 97, 32, 12), ("gfx1102", 128, 32, 8),
                                             ("gfx908", 128, 64, 2), ("gfx1201", 100, 32, 12), ("gfx1151", 108, 32, 12), ("gfx906", 25, 64, 9),
                                             ("gfx803", 132, 64, 1), ("gfx900", 128, 64, 2), ("gfx1012", 196, 32, 5)):
            self.assertEqual(self.waves(chip, registers, wave, 0, wave), waves, f"{chip} with {registers} registers")

    def test_a_group_that_does_not_fit(self):
        self.assertEqual(self.waves("gfx1100", 32, 256, 65 * 1024), 0)


if __name__ == "__main__":
    unittest.main()
