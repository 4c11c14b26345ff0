; Written by hand. A wave of 32 lanes on gfx1030: v1 holds neighbouring words, v2 words that all lie in bank 0.
	.amdgcn_target "amdgcn-amd-amdhsa--gfx1030"
loop:
	v_lshlrev_b32_e32 v1, 2, v0
	v_lshlrev_b32_e32 v2, 7, v0
	s_mov_b32 s4, 8
.LBB0_1:
	ds_read_b32 v3, v1
	ds_read_b32 v4, v2 offset:64
	s_waitcnt lgkmcnt(0)
	v_fma_f32 v10, v3, v4, v10
	v_fma_f32 v11, v3, v4, v11
	v_fma_f32 v12, v3, v4, v12
	v_fma_f32 v13, v3, v4, v13
	v_fma_f32 v14, v3, v4, v14
	v_fma_f32 v15, v3, v4, v15
	v_fma_f32 v16, v3, v4, v16
	v_fma_f32 v17, v3, v4, v17
	s_add_i32 s4, s4, -1
	s_cmp_lg_u32 s4, 0
	s_cbranch_scc1 .LBB0_1
	s_endpgm
	.amdhsa_kernel loop
		.amdhsa_user_sgpr_count 2
	.end_amdhsa_kernel
    .wavefront_size: 32
    .vgpr_count:     18
    .max_flat_workgroup_size: 32
