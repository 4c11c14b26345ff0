// tools/update-compatibility, with an index of a few small wheels in a folder.
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>

#include "athanor/base/file.h"
#include "athanor/doctor/compatibility.h"
#include "tests/doctor/fixture.h"

namespace athanor::doctor {
namespace {

using ::athanor::testing::TemporaryFolder;
using ::athanor::testing::write_text;
using ::testing::HasSubstr;

const char* const make_index = R"(import os, sys, zipfile
root = sys.argv[1]
def wheel(name, version, tag, requires):
    folder = os.path.join(root, name.replace("_", "-"))
    os.makedirs(folder, exist_ok=True)
    file = f"{name}-{version}-{tag}.whl"
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(os.path.join(folder, file), "w") as out:
        out.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n" + requires + "\n")
        out.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n")
        out.writestr(f"{info}/RECORD", "")
    with open(os.path.join(folder, "index.html"), "a") as page:
        page.write(f'<a href="{file}">{file}</a>\n')
for python in ("312", "313"):
    tag = f"cp{python}-cp{python}-manylinux_2_28_x86_64"
    wheel("torch", "2.15.0", tag, "Requires-Dist: cuda-toolkit[cudart]==13.2.2; platform_system == 'Linux'")
    wheel("torch", "2.98.0", tag, "Requires-Dist: cuda-toolkit[cudart]==14.1.2; platform_system == 'Linux'")
    wheel("torch", "2.99.0", tag, "Requires-Dist: filelock")
    for cuda in ("13.0.48", "98.4.92", "98.5.37"):
        wheel("nvidia_cuda_nvrtc", cuda, tag, "")
)";

TEST(UpdateCompatibility, AddsWhatAnIndexTells) {
  if (std::system(
          "python3 -c 'import pip, sys; sys.exit(int(pip.__version__.split(\".\")[0]) < 23)' 2>/dev/null") !=
      0)
    GTEST_SKIP() << "no python3 with pip 23";
  const TemporaryFolder folder;
  const std::filesystem::path root(ATHANOR_SOURCE_DIR);
  write_text(folder.path() / "make.py", make_index);
  const auto run = [&](const std::string& command) { return std::system(command.c_str()); };
  ASSERT_EQ(
      run("python3 " + (folder.path() / "make.py").string() + " " + (folder.path() / "simple").string()), 0);
  const std::string tool =
      "PIP_FIND_LINKS= PIP_CONFIG_FILE=/dev/null " + (root / "tools" / "update-compatibility").string() +
      " --python python3 --pythons 3.12,3.13 --only torch --only cuda --date 2027-01-31 --data " +
      (root / "data" / "compatibility.toml").string();
  const std::string index = " --index file://" + (folder.path() / "simple").string();
  const auto output = folder.path() / "newer.toml", said = folder.path() / "said.txt";
  ASSERT_EQ(run(tool + index + " -o " + output.string() + " >" + said.string() + " 2>&1"), 0)
      << read_text_file(said);
  const std::string text = read_text_file(said);
  EXPECT_THAT(text,
              HasSubstr("\n+  { version = \"2.98\", python = [\"3.12\", \"3.13\"], cuda = [\"14.1\"] },\n"));
  EXPECT_THAT(text, HasSubstr("CUDA 98.4, 98.5: newer than 13."));
  EXPECT_THAT(text, HasSubstr("torch 2.99 is new, and its metadata does not say for which CUDA"));
  EXPECT_THAT(text, HasSubstr("An index of packages cannot tell"));
  EXPECT_THAT(text,
              HasSubstr("-date = \"" + Compatibility::built_in().date + "\"\n+date = \"2027-01-31\"\n"));
  // Doctor can read what it wrote.
  const Compatibility newer = Compatibility::parse(read_text_file(output), output.string());
  EXPECT_EQ(newer.pytorch.back().version, *Version::parse("2.98"));
  EXPECT_EQ(newer.pytorch.size(), Compatibility::built_in().pytorch.size() + 1);
  EXPECT_EQ(newer.date, "2027-01-31");
  EXPECT_EQ(newer.origins.at("pytorch").date, "2027-01-31");
  EXPECT_EQ(newer.origins.at("cuda").date, Compatibility::built_in().origins.at("cuda").date);
  // An index that cannot be reached is reported, and nothing is changed.
  std::filesystem::remove(output);
  EXPECT_NE(run(tool + " --index file:///nonexistent -o " + output.string() + " >" + said.string() + " 2>&1"),
            0);
  EXPECT_THAT(read_text_file(said), HasSubstr("Not learned:\n  torch: "));
  EXPECT_FALSE(std::filesystem::exists(output));
}

}  // namespace
}  // namespace athanor::doctor
