"""AMD's device library (ocml.bc: exp, tanh, erf), which hipRTC links to every kernel and inlines."""
import functools
import glob
import hashlib
import os
import pathlib
import re
import shlex
import subprocess
import tempfile

MISSING = ("AMD's device library is missing (tools/install-packages test): exp, tanh and others stay calls, and kernels with "
           "them have other registers than on a GPU")
FOLDERS = ["/opt/rocm/amdgcn/bitcode", "/opt/rocm/lib/llvm/lib/clang/*/lib/amdgcn/bitcode", "/usr/lib/*/amdgcn/bitcode",
           "/usr/lib/amdgcn/bitcode", "/usr/lib/llvm-*/lib/clang/*/amdgcn/bitcode", "/usr/lib/llvm-*/lib/clang/*/lib/amdgcn/bitcode",
           "/usr/lib/clang/*/amdgcn/bitcode", "/usr/lib/clang/*/lib/amdgcn/bitcode"]


def chip_number(name):
    """gfx90a: (9, 0, 10). The last two places are hexadecimal digits."""
    return int(name[:-2]), int(name[-2], 16), int(name[-1], 16)


def known_chips(folder):
    """The chips for which the folder has a file, oldest first."""
    names = [re.fullmatch(r"oclc_isa_version_(\d+[0-9a-f]{2})\.bc", one) for one in os.listdir(folder)]
    return sorted((one[1] for one in names if one), key=chip_number)


def nearest_chips(folder, chip):
    """The chip itself, or for a chip that is newer than the library, those before it, newest first: the library asks for nothing
    newer. Some of them may be too old for the compiler."""
    number = chip_number(chip.removeprefix("gfx"))
    older = [one for one in known_chips(folder) if chip_number(one) <= number]
    return ["gfx" + one for one in reversed(older)] or [chip]


@functools.cache
def library_options(clang, folder, chip):
    """What links the library's files that clang itself chooses for the chip: those for its wave's width and for its denormals."""
    files = []
    for near in nearest_chips(folder, chip):
        run = subprocess.run([*clang, "-###", "-x", "hip", "--offload-device-only", "-nogpuinc", f"--rocm-device-lib-path={folder}",
                              f"--offload-arch={near}", "-O3", "-S", "-o", "-", os.devnull], capture_output=True, text=True)
        words = [word for line in run.stderr.splitlines() if '"-cc1"' in line for word in shlex.split(line)]
        files = [words[at + 1] for at, word in enumerate(words) if word == "-mlink-builtin-bitcode"]
        if files:
            break
    return tuple(word for file in files for word in ("-Xclang", "-mlink-builtin-bitcode", "-Xclang", file))


def links(clang, folder):
    """Whether this clang can read the library: not if a newer LLVM wrote it."""
    with tempfile.NamedTemporaryFile("w", suffix=".hip") as file:
        file.write('extern "C" __attribute__((device)) float __ocml_tanh_f32(float);\n'
                   'extern "C" __attribute__((global)) void probe(float* x) { *x = __ocml_tanh_f32(*x); }\n')
        file.flush()
        run = subprocess.run([*clang, "-x", "hip", "--offload-device-only", "-nogpuinc", "-nogpulib", *library_options(clang, folder, "gfx90a"),
                              "--offload-arch=gfx90a", "-O3", "-S", "-o", "-", file.name], capture_output=True, text=True)
    return run.returncode == 0 and "__ocml_tanh_f32" not in run.stdout


@functools.cache
def device_library(clang):
    """The folder of the first library that this clang links, or None."""
    named = [os.environ["ROCM_PATH"] + "/amdgcn/bitcode"] if os.environ.get("ROCM_PATH") else []
    folders = [folder for pattern in named + FOLDERS for folder in sorted(glob.glob(pattern), reverse=True)]
    return next((folder for folder in folders if pathlib.Path(folder, "ocml.bc").is_file() and links(clang, folder)), None)


@functools.cache
def digest_of(folder):
    """Of all the library's files, with their names."""
    digest = hashlib.sha256()
    for path in sorted(pathlib.Path(folder).glob("*.bc")):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()
