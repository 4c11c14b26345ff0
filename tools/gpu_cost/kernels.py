"""From a kernel's source, or a cubin, to its prediction for a chip."""
import pathlib
import re
import tempfile

from . import amd, rates, sass
from .compilers import Clang, disassembled, nvrtc
from .predict import predict


class Source:
    """A kernel's file: .hip or .cu as `athanor kernels dump` writes them; .s (clang) or .cubin."""

    def __init__(self, path, title=None, dtype=None):
        self.path = pathlib.Path(path)
        self.title = title or self.path.stem
        text = self.path.read_text() if self.path.suffix in (".hip", ".cu") else ""
        found = [re.search(rf"#define GROUP_EXTENT_{n} \(?(\d+)", text) for n in range(3)]
        self.extents = tuple(int(one[1]) for one in found) if all(found) else None
        named = re.search(r"#define DTYPE (\w+)", text)
        self.dtype = dtype or (named and named[1])

    def suits(self, chip):
        amd_chip = rates.chip(chip).vendor == "amd"
        return self.path.suffix in ((".hip", ".s") if amd_chip else (".cu", ".cubin"))

    def prediction(self, chip):
        """Throws ValueError if it does not compile or cannot be read."""
        figures = rates.chip(chip)
        if figures.vendor == "amd":
            text = self.path.read_text() if self.path.suffix == ".s" else Clang().assembly(chip, self.path)
            program = amd.read(text)
        else:
            cubin = self.path.read_bytes() if self.path.suffix == ".cubin" else nvrtc().cubin(chip, self.path)
            text = disassembled(cubin)
            program = sass.add_resources(sass.read(text), cubin)
        return predict(figures, program, text, self.extents, self.dtype)


def cubin_of(library, name, chip, cuobjdump, folder=None):
    """The cubin of a library for the chip that holds the kernel `name`, from cuobjdump -xelf; None if there is none."""
    import subprocess
    with tempfile.TemporaryDirectory() as made:
        folder = folder or made
        subprocess.run([cuobjdump, "-arch", chip, "-xelf", name, library], cwd=folder, check=True, capture_output=True)
        for path in sorted(pathlib.Path(folder).glob("*.cubin")):
            return path.read_bytes()
    return None
