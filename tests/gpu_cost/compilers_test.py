#!/usr/bin/env python3
"""How the tools compile: AMD's device library is linked as hipRTC links it, and models are named with their sizes."""
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE.parent.parent / "tools"))

from gpu_cost import compilers, device_library  # noqa: E402
from gpu_cost.compilers import Clang, installed_clang  # noqa: E402
from gpu_cost.models import model_options  # noqa: E402

KERNEL = """extern "C" __attribute__((device)) float __ocml_tanh_f32(float);
extern "C" __attribute__((global)) void kernel(float* x) { x[__builtin_amdgcn_workitem_id_x()] = __ocml_tanh_f32(*x); }
"""


class DeviceLibrary(unittest.TestCase):
    def test_a_chip_newer_than_the_library_is_taken_for_the_newest_before_it(self):
        with tempfile.TemporaryDirectory() as folder:
            for one in ("900", "906", "90a", "940", "1030", "1036", "1010"):
                pathlib.Path(folder, f"oclc_isa_version_{one}.bc").touch()
            for chip, near in (("gfx906", "gfx906"), ("gfx908", "gfx906"), ("gfx90a", "gfx90a"), ("gfx942", "gfx940"), ("gfx1030", "gfx1030"),
                               ("gfx1100", "gfx1036"), ("gfx1201", "gfx1036"), ("gfx803", "gfx803")):
                self.assertEqual(device_library.nearest_chips(folder, chip)[0], near, chip)
            # gfx940 was never sold, and newer compilers have forgotten it.
            self.assertEqual(device_library.nearest_chips(folder, "gfx950"), ["gfx940", "gfx90a", "gfx906", "gfx900"])

    def test_functions_are_inlined(self):
        clang = installed_clang()
        if not clang.library:
            self.skipTest("clang or AMD's device library is missing")
        with tempfile.NamedTemporaryFile("w", suffix=".hip") as file:
            file.write(KERNEL)
            file.flush()
            with unittest.mock.patch.object(compilers, "device_library", lambda path: None):
                without = Clang(clang.command, clang.name)
            for chip in filter(clang.knows, ("gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201")):
                text = clang.assembly(chip, pathlib.Path(file.name))
                self.assertNotIn("__ocml_tanh_f32", text)
                self.assertRegex(text, r"_exp_f32")
                self.assertIn("__ocml_tanh_f32", without.assembly(chip, pathlib.Path(file.name)))
                # The registers of a call are those that any function may take.
                self.assertLess(compilers.figures(text)["vgprs"], without.compile(chip, pathlib.Path(file.name))["vgprs"])
        self.assertNotEqual((clang.version(), clang.options), (without.version(), without.options))

    def test_control_files_are_those_of_the_chip(self):
        clang = installed_clang()
        if not clang.library:
            self.skipTest("clang or AMD's device library is missing")
        for chip, wide in (("gfx906", "on"), ("gfx90a", "on"), ("gfx942", "on"), ("gfx1030", "off"), ("gfx1100", "off"), ("gfx1201", "off")):
            names = [pathlib.Path(one).name for one in device_library.library_options(clang.command, clang.library, chip) if one.endswith(".bc")]
            # f32 keeps small numbers on all of these, and nothing is said to be finite: hipRTC's defaults.
            for name in ("ocml.bc", f"oclc_wavefrontsize64_{wide}.bc", "oclc_daz_opt_off.bc", "oclc_unsafe_math_off.bc", "oclc_finite_only_off.bc"):
                self.assertIn(name, names, chip)


class Models(unittest.TestCase):
    def test_names_with_sizes(self):
        for text, options in (("cnn", "--model cnn"), ("gpt2-nano:bf16", "--model gpt2-nano --precision bf16"),
                              ("resnet50::64", "--model resnet50 --batch-size 64"),
                              ("gpt2-small:bf16:8:50257", "--model gpt2-small --precision bf16 --batch-size 8 --classes 50257")):
            self.assertEqual(model_options(text), options.split())
        for text in ("", ":bf16", "cnn:f32:many", "cnn:f32:8:-1", "cnn:f32:8:10:1"):
            with self.assertRaises(ValueError, msg=text):
                model_options(text)


if __name__ == "__main__":
    unittest.main()
