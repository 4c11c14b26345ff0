"""Compiles kernels in OpenCL C for a chip, and runs them on the virtual one through its library of HIP or CUDA."""
import ctypes
import os
import struct
import subprocess
import sys

CLANG = os.environ.get("CLANG", "clang-19")

AMD = """#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#define get_local_id(d) __builtin_amdgcn_workitem_id_x()
#define get_group_id(d) __builtin_amdgcn_workgroup_id_x()
#define barrier(x) (__builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"), __builtin_amdgcn_s_barrier(), \\
                    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup"))
#define vload_half(i, p) ((float)(p)[i])
#define vstore_half_rte(x, i, p) ((p)[i] = (half)(x))
#define exp2(x) __builtin_amdgcn_exp2f(x)
#define log(x) (__builtin_amdgcn_logf(x) * 0.69314718f)
#define fmax(a, b) __builtin_fmaxf(a, b)
#define fma(a, b, c) __builtin_elementwise_fma(a, b, c)
"""
INTEL = """typedef uint8 near_uint8 __attribute__((aligned(4)));
#define vload8(i, p) (*(const __local near_uint8 *)(p))
#define MATRIX_MAD(T, F32_OF)                                                                                   \\
  static inline float8 intel_sub_group_##T##_##T##_matrix_mad_k16(A a, int8 b, float8 c) {                      \\
    const int first = __builtin_amdgcn_mbcnt_lo(~0u, 0) & ~(LANES - 1);                                         \\
    for (int r = 0; r < 8; ++r)                                                                                 \\
      for (int k = 0; k < 16; ++k) {                                                                            \\
        const int mine = a[r], its = __builtin_amdgcn_ds_bpermute((first + k * LANES / 16) * 4, mine);          \\
        c[r] += F32_OF(as_ushort2(its)[k % (16 / LANES)]) * F32_OF(as_ushort2(b[k / 2])[k % 2]);                \\
      }                                                                                                         \\
    return c;                                                                                                   \\
  }
#define OF_F16(x) (float)as_half(x)
#define OF_BF16(x) as_float((uint)(x) << 16)
MATRIX_MAD(f16, OF_F16)
MATRIX_MAD(bf16, OF_BF16)
"""
NVIDIA = """#define get_local_id(d) __nvvm_read_ptx_sreg_tid_x()
#define get_group_id(d) __nvvm_read_ptx_sreg_ctaid_x()
#define barrier(x) __syncthreads()
static inline float half_to_float(ushort h) { float f; __asm__("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h)); return f; }
static inline ushort float_to_half(float f) { ushort h; __asm__("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f)); return h; }
#define vload_half(i, p) half_to_float(*(const ushort *)((p) + (i)))
#define vstore_half_rte(x, i, p) (*(ushort *)((p) + (i)) = float_to_half(x))
static inline float exp2(float x) { float y; __asm__("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
static inline float log(float x) { float y; __asm__("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x)); return y * 0.69314718f; }
#define fmax(a, b) __builtin_fmaxf(a, b)
#define fma(a, b, c) __builtin_fmaf(a, b, c)
"""


def compiled(text, options, chip, folder):
    amd = chip.startswith("gfx")
    source, code = folder / "kernel.cl", folder / "kernel.out"
    source.write_text((AMD if amd else NVIDIA) + text)
    common = [CLANG, "-x", "cl", "-cl-std=CL1.2", "-w", "-O3", "-Xclang", "-finclude-default-header"]
    chosen = (["-target", "amdgcn-amd-amdhsa", f"-mcpu={chip}", "-mcode-object-version=5", "-nogpulib"] if amd else
              ["-target", "nvptx64-nvidia-nvcl", "-S", "-Xclang", "-target-feature", "-Xclang", "+ptx75", "-Xclang",
               "-target-cpu", "-Xclang", chip])
    options = [option for option in options.split() if not option.startswith("-cl-intel")]
    subprocess.run(common + chosen + options + [str(source), "-o", str(code)], check=True)
    return code.read_bytes() + b"\0"


class Driver:
    def __init__(self, amd):
        self.amd = amd
        self.library = ctypes.CDLL("libamdhip64.so" if amd else "libcuda.so.1")
        self.call("hipInit" if amd else "cuInit", 0)
        if not amd:
            context, device = ctypes.c_void_p(), ctypes.c_int()
            self.call("cuDeviceGet", ctypes.byref(device), 0)
            self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
            self.call("cuCtxSetCurrent", context)

    def call(self, name, *arguments):
        if result := getattr(self.library, name)(*arguments):
            sys.exit(f"{name}: {result}")

    def upload(self, data):
        memory, size = ctypes.c_void_p(), ctypes.c_size_t(len(data))
        self.call("hipMalloc" if self.amd else "cuMemAlloc_v2", ctypes.byref(memory), size)
        if self.amd:
            self.call("hipMemcpyAsync", memory, data, size, 1, None)
        else:
            self.call("cuMemcpyHtoDAsync_v2", memory, data, size, None)
        return memory

    def download(self, memory, count):
        data, size = ctypes.create_string_buffer(count), ctypes.c_size_t(count)
        if self.amd:
            self.call("hipMemcpyAsync", data, memory, size, 2, None)
        else:
            self.call("cuMemcpyDtoHAsync_v2", data, memory, size, None)
        self.call("hipStreamSynchronize" if self.amd else "cuStreamSynchronize", None)
        return data.raw

    def run(self, code, groups, items, buffers, kernel):
        prefix = "hip" if self.amd else "cu"
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call(prefix + "ModuleLoadData", ctypes.byref(module), code)
        self.call(prefix + "ModuleGetFunction", ctypes.byref(function), module, kernel)
        values = [v for buffer in buffers for v in (buffer, ctypes.c_uint64(0))]  # see BUFFER in opencl.kernel
        pointers = (ctypes.c_void_p * len(values))(*[ctypes.cast(ctypes.byref(v), ctypes.c_void_p) for v in values])
        launch = "hipModuleLaunchKernel" if self.amd else "cuLaunchKernel"
        self.call(launch, function, groups, 1, 1, items, 1, 1, 0, None, pointers, None)


class Packed:
    """Floats as struct packs them, by the letter of their format."""

    def __init__(self, letter):
        self.letter, self.size = letter, struct.calcsize(f"<{letter}")

    def bytes_of(self, values):
        return struct.pack(f"<{len(values)}{self.letter}", *values)

    def numbers(self, data):
        return struct.unpack(f"<{len(data) // self.size}{self.letter}", data)


F16, F32 = Packed("e"), Packed("f")


class Bf16:
    size = 2

    @staticmethod
    def bytes_of(values):  # rounded to nearest, ties to even
        bits = [struct.unpack("<I", struct.pack("<f", x))[0] for x in values]
        return b"".join(struct.pack("<H", b + 0x7fff + (b >> 16 & 1) >> 16) for b in bits)

    @staticmethod
    def numbers(data):  # the upper halves of f32
        return struct.unpack(f"<{len(data) // 2}f", b"".join(b"\0\0" + data[i:i + 2] for i in range(0, len(data), 2)))
