"""Predicts from a kernel's machine code what share of a chip's peak its inner loop can reach: docs/predicted-speed.md.

    instruction.py   the form in which amd.py and sass.py return disassemblies
    loops.py         finds the inner loop
    walk.py          runs its integer arithmetic for the lanes of a wave (amd_lanes.py, sass_lanes.py): trip counts, addresses
    banks.py         conflicts of local memory, lines of global memory
    occupancy.py     waves that a chip holds
    simulate.py      the waves of a SIMD, instruction by instruction
    predict.py       makes the row of the table from all this
    wgmma.py         looks for a fault of NVIDIA's compiler
    rates.toml       what chips do in a clock cycle, with the source of each number
"""
