"""The installed compilers, and NVIDIA's disassembler."""
import contextlib
import ctypes
import functools
import glob
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import threading

from .device_library import device_library, digest_of, library_options
from .rates import number_of
from .sass import symbol_number

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
KEPT = ROOT / "build" / "gpu-kernels"


def figures(assembly):
    """The figures that the assembly's metadata has for its only kernel."""
    def number(name):
        found = re.search(rf"\.{name}:\s+(\d+)", assembly)
        return int(found[1]) if found else 0
    return {"vgprs": number("vgpr_count"), "sgprs": number("sgpr_count"), "local": number("group_segment_fixed_size"),
            "spills": number("vgpr_spill_count") + number("sgpr_spill_count"),
            "private": number("private_segment_fixed_size")}


def text_of(source):
    """A kernel's text. `athanor kernels dump` writes the language's header to a file of its own."""
    text, name = source.read_bytes(), "kernel_language.h"
    include = f'#include "{name}"\n'.encode()
    return text.replace(include, (source.parent / name).read_bytes(), 1) if include in text else text


def kept(compiler, chip, source):
    """The result of compiler.compile(), from build/gpu-kernels if the same compiler has compiled the same source for the chip."""
    digest = hashlib.sha256(f"{compiler.version()} {compiler.options} {chip}\n".encode() + text_of(source)).hexdigest()
    path = KEPT / digest[:2] / digest
    try:
        return json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        pass
    result = compiler.compile(chip, source)
    if isinstance(result, dict):
        path.parent.mkdir(parents=True, exist_ok=True)
        half = path.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
        half.write_text(json.dumps(result))
        half.replace(path)
    return result


class Clang:
    """clang for AMD's chips: returns the figures of the machine code. Links AMD's device library, as hipRTC does, if it is here."""
    language = "hip"

    def __init__(self, command, name):
        self.command, self.name = command, name  # the command's words; (): there is none
        self.library = command and device_library(command)
        # Without the library, its functions (exp, log) are calls; assume that they need no memory.
        self.options = ("-x", "hip", "--offload-device-only", "-nogpuinc", "-nogpulib",
                        *(() if self.library else ("-mllvm", "-amdgpu-assume-external-call-stack-size=0")), "-O3", "-S", "-o", "-")

    @functools.cache
    def knows(self, chip):
        return bool(self.command) and isinstance(self.compile(chip, pathlib.Path(os.devnull)), dict)

    @functools.cache
    def version(self):
        version = subprocess.run([*self.command, "--version"], capture_output=True, text=True).stdout
        return version + (f"with {digest_of(self.library)}" if self.library else "")

    def run(self, chip, source):
        linked = library_options(self.command, self.library, chip) if self.library else ()
        command = [*self.command, *self.options, *linked, f"--offload-arch={chip}", str(source)]
        return subprocess.run(command, capture_output=True, text=True)

    def compile(self, chip, source):
        run = self.run(chip, source)
        return figures(run.stdout) if run.returncode == 0 else run.stderr.strip()

    def assembly(self, chip, source):
        """Throws ValueError with clang's message."""
        run = self.run(chip, source)
        if run.returncode != 0:
            raise ValueError(run.stderr.strip())
        return run.stdout


@functools.cache
def installed_clang():
    """The newest installed one that is known to compile well."""
    path = next(filter(None, map(shutil.which, ["clang++-19", "clang++-16", "clang++"])), None)
    return Clang((path,), pathlib.Path(path).name) if path else Clang((), "clang++")


@functools.cache
def newest_clang():
    """The one that the Zig compiler's wheel brings along (tools/python/newest-clang.txt): as new as that of ROCm 7."""
    found = wheels("ziglang/zig")
    # It would take a newer form of the device library than Debian's by default.
    return Clang((found[0], "clang", "-mcode-object-version=5"), "newest clang") if found else Clang((), "newest clang")


def prefer_newest_clang(preferred):
    """In this process, for all chips."""
    clang_for.newest = preferred


def clang_for(chip):
    """The installed clang; for chips that it does not know, or if that is preferred, the newest one."""
    installed = installed_clang()
    if clang_for.newest or not installed.knows(chip) and newest_clang().knows(chip):
        return newest_clang()
    return installed


prefer_newest_clang(False)


class Rtc:
    """NVRTC or hipRTC, which have the same functions."""

    def __init__(self, name, language, prefix, libraries, options, empty):
        self.name, self.language, self.prefix, self.options, self.empty = name, language, prefix, options, empty
        # hipRTC of HIP 5.2 crashes if threads compile at the same time.
        self.turn = threading.Lock() if prefix == "hiprtc" else contextlib.nullcontext()
        self.library = None
        for path in libraries:
            try:
                self.library = ctypes.CDLL(path)
                break
            except OSError:
                pass

    @functools.cache
    def knows(self, chip):
        return self.library and isinstance(self.compile(chip, None), dict)

    @functools.cache
    def version(self):
        major, minor = ctypes.c_int(), ctypes.c_int()
        self.call("Version", ctypes.byref(major), ctypes.byref(minor))
        return f"{self.name} {major.value}.{minor.value}"

    def call(self, function, *arguments):
        return getattr(self.library, self.prefix + function)(*arguments)

    def compile(self, chip, source):
        return self.built(chip, source, lambda program: {})

    def cubin(self, chip, source):
        """Machine code from NVRTC. Throws ValueError with the compiler's message."""
        result = self.built(chip, source, lambda program: self.text(program, "CUBIN"))
        if isinstance(result, str):
            raise ValueError(result)
        return result

    def text(self, program, what):
        size = ctypes.c_size_t()
        if self.call(f"Get{what}Size", program, ctypes.byref(size)) != 0:
            return b""
        buffer = ctypes.create_string_buffer(size.value)
        self.call(f"Get{what}", program, buffer)
        return buffer.raw

    def built(self, chip, source, take):
        """The result of `take` for the compiled program, or the compiler's message."""
        with self.turn:
            return self.build(chip, source, take)

    def build(self, chip, source, take):
        program = ctypes.c_void_p()
        text = text_of(source) if source else self.empty
        if self.call("CreateProgram", ctypes.byref(program), text, b"kernel.cu", 0, None, None) != 0:
            return "cannot make a program"
        options = [option.format(chip).encode() for option in self.options]
        status = self.call("CompileProgram", program, len(options), (ctypes.c_char_p * len(options))(*options))
        log = self.text(program, "ProgramLog").rstrip(b"\0").decode(errors="replace") if status != 0 else ""
        result = take(program) if status == 0 else log.strip() or f"error {status}"
        self.call("DestroyProgram", ctypes.byref(program))
        return result


def wheels(pattern):
    """Files of packages in build/python."""
    return glob.glob(str(ROOT / "build/python/lib/python*/site-packages" / pattern))


@functools.cache
def nvrtc(chip):
    """The newest NVRTC that compiles for the chip, or any. tools/python/before-sm_75.txt has one for chips that NVRTC 13 does
    not know."""
    folders = [os.environ.get("CUDA_HOME", ""), "/usr/local/cuda"]
    libraries = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", *(f"{folder}/lib64/libnvrtc.so" for folder in folders if folder),
                 *sorted(wheels("nvidia/*/lib/libnvrtc.so.1?"), key=lambda path: path[-2:], reverse=True)]
    found = [Rtc("NVRTC", "cuda", "nvrtc", [library], ["--gpu-architecture={}", "--std=c++17"], b"__global__ void nothing() {}")
             for library in libraries]
    return next((one for one in found if one.knows(chip)), None) or next((one for one in found if one.library), found[0])


@functools.cache
def hiprtc():
    libraries = ["libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5", "libamdhip64.so.5"]  # HIP 5.2 has it inside
    return Rtc("hipRTC", "hip", "hiprtc", libraries, ["--offload-arch={}", "-O3"],
               b'extern "C" __global__ void nothing() {}')


@functools.cache
def nvdisasm(chip):
    """The path of an nvdisasm that reads the chip's code, or None."""
    old = number_of(chip) < 75
    folders = [os.environ.get("CUDA_HOME", "/usr/local/cuda") + "/bin", *wheels("triton/backends/nvidia/bin" if old else "nvidia/*/bin")]
    for path in filter(None, [shutil.which("nvdisasm"), *(f"{folder}/nvdisasm" for folder in folders)]):
        if os.path.isfile(path):
            if not os.access(path, os.X_OK):
                os.chmod(path, 0o755)  # a wheel's programs come without the permission
            release = re.search(r"release (\d+)\.(\d+)", subprocess.run([path, "--version"], capture_output=True, text=True).stdout)
            # Releases after 13.0 refuse older chips.
            if not old or release and tuple(map(int, release.groups())) <= (13, 0):
                return path
    return None


def missing_for(chip):
    """What is missing to read machine code for the chip and how to install it, or None."""
    pip = "build/python/bin/pip install"
    if number_of(chip) < 75:
        known = nvrtc(chip).knows(chip) and nvdisasm(chip)
        return None if known else f"an NVRTC or an nvdisasm for old chips is missing ({pip} --no-deps -r tools/python/before-sm_75.txt)"
    if not nvrtc(chip).knows(chip):
        return f"NVRTC is missing or does not know the chip ({pip} nvidia-cuda-nvrtc)"
    return None if nvdisasm(chip) else f"nvdisasm is missing ({pip} -r tools/python/nvdisasm.txt)"


def disassembled(chip, cubin, kernel=None):
    """The only kernel of a cubin for the chip, or the one of that name. Throws ValueError if nvdisasm cannot, or there is none."""
    if not nvdisasm(chip):
        raise ValueError(missing_for(chip))
    only = ["-fun", str(symbol_number(cubin, kernel))] if kernel else []
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        run = subprocess.run([nvdisasm(chip), "-c", "-hex", *only, file.name], capture_output=True, text=True)
    if run.returncode != 0:
        raise ValueError(run.stderr.strip())
    return run.stdout
