; Written by hand. The outer loop reads global memory, stores to local memory and meets the group's other waves; the inner one
; multiplies 4 times, with 3 of 4 lanes' addresses the same.
	.amdgcn_target "amdgcn-amd-amdhsa--gfx1100"
nested:
	s_load_b64 s[4:5], s[0:1], 0x8
	v_and_b32_e32 v0, 0x3ff, v0
	v_lshlrev_b32_e32 v1, 4, v0
	v_and_b32_e32 v2, 16, v1
	s_mov_b32 s6, 0
	s_waitcnt lgkmcnt(0)
.LBB0_1:
	global_load_b128 v[4:7], v1, s[4:5]
	v_add_nc_u32_e32 v1, 0x1000, v1
	s_mov_b32 s7, 0
	s_waitcnt vmcnt(0)
	ds_store_b128 v2, v[4:7]
	s_waitcnt lgkmcnt(0)
	s_barrier
.LBB0_2:
	ds_load_b128 v[8:11], v2
	s_add_i32 s7, s7, 1
	s_waitcnt lgkmcnt(0)
	v_dual_fmac_f32 v20, v8, v9 :: v_dual_fmac_f32 v21, v10, v11
	v_wmma_f32_16x16x16_f16 v[24:31], v[8:15], v[8:15], v[24:31]
	s_cmp_lt_i32 s7, 4
	s_cbranch_scc1 .LBB0_2
	s_add_i32 s6, s6, 1
	s_barrier
	s_cmp_lt_i32 s6, 100
	s_cbranch_scc1 .LBB0_1
	s_endpgm
	.amdhsa_kernel nested
		.amdhsa_user_sgpr_count 15
	.end_amdhsa_kernel
    .group_segment_fixed_size: 512
    .wavefront_size: 32
    .vgpr_count:     32
    .max_flat_workgroup_size: 256
