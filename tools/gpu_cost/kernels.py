"""From a kernel's source, or a cubin, to its prediction for a chip."""
import pathlib
import re

from . import amd, rates, sass, sass_maxwell
from .compilers import clang_for, disassembled, nvrtc
from .predict import predict


def bytes_of_a_box(text):
    """The mean bytes of the copies of boxes (TMA) that belong to an arrival; 0 if there are none."""
    found = re.search(r"ARRIVAL_EXPECT\([^;]*, (\d+)\);((?:(?!ARRIVAL_EXPECT)[^}])*)", text)
    boxes = found[2].count("COPY_BOX(") if found else 0
    return int(found[1]) / boxes if boxes else 0


class Source:
    """A kernel's file: .hip or .cu as `athanor kernels dump` writes them; .s (clang) or .cubin, with :KERNEL if it has several."""

    def __init__(self, path, title=None, dtype=None, local_bytes=0, items=0):
        self.local_bytes = local_bytes  # of a group, if it is known from the launch and not from the code
        path, colon, self.kernel = str(path).partition(".cubin:")
        self.path = pathlib.Path(path + ".cubin" if colon else path)
        self.title = title or self.kernel or self.path.stem
        text = self.path.read_text() if self.path.suffix in (".hip", ".cu") else ""
        self.box_bytes = bytes_of_a_box(text)
        found = [re.search(rf"#define GROUP_EXTENT_{n} \(?(\d+)", text) for n in range(3)]
        self.extents = tuple(int(one[1]) for one in found) if all(found) else (items, 1, 1) if items else None
        named = re.search(r"BUFFER\(const STORED\((\w+)\)", text)  # its first input
        self.dtype = dtype or (named and named[1])

    def suits(self, chip):
        amd_chip = rates.chip(chip).vendor == "amd"
        return self.path.suffix in ((".hip", ".s") if amd_chip else (".cu", ".cubin"))

    def prediction(self, chip):
        """Throws ValueError if it does not compile or cannot be read."""
        figures = rates.chip(chip)
        if figures.vendor == "amd":
            text = self.path.read_text() if self.path.suffix == ".s" else clang_for(chip).assembly(chip, self.path)
            program = amd.read(text)
        else:
            cubin = self.path.read_bytes() if self.path.suffix == ".cubin" else nvrtc(chip).cubin(chip, self.path)
            text = disassembled(chip, cubin, self.kernel)
            reader = sass_maxwell if figures.before_volta else sass
            program = sass.add_resources(reader.read(text), cubin)
            if program.local and rates.number_of(chip) >= 90:
                program.local -= figures.local_reserved  # the cubin includes this
        program.local = max(program.local, self.local_bytes)
        program.box_bytes = self.box_bytes
        return predict(figures, program, text, self.extents, self.dtype)
