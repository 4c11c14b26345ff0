#include "athanor/device/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "athanor/base/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/machine_fixture.h"
#include "tests/support/temp_folder.h"

namespace athanor::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class MachineTest : public ::testing::Test {
 protected:
  // Unpacks a fixture with this text.
  Machine machine(const std::string& text) {
    write_file_atomically(folder_ / "x.machine", text);
    std::filesystem::remove_all(folder_ / "root");
    MachineFixture(folder_ / "x.machine").unpack(folder_ / "root");
    return Machine(folder_ / "root");
  }
  TempFolder folder_;
};

TEST_F(MachineTest, ReadsFilesLinesAndNumbers) {
  const Machine m = machine(
      "== /sys/a\n one \n== /sys/hex\n0x10de\n== /sys/number\n-12\n== /sys/huge\n99999999999999999999\n"
      "== /sys/bad\n12x\n== /sys/empty\n");
  EXPECT_FALSE(m.live());
  EXPECT_EQ(m.read("/sys/a"), " one \n");
  EXPECT_EQ(m.read("/sys/a", 3), " on");
  EXPECT_EQ(m.read_line("/sys/a"), "one");
  EXPECT_EQ(m.read_number("/sys/hex"), 0x10de);
  EXPECT_EQ(m.read_number("/sys/number"), -12);
  EXPECT_EQ(m.read_line("/sys/empty"), "");
  for (const char* none : {"/sys/huge", "/sys/bad", "/sys/empty", "/sys", "/nothing", "/sys/a/b", ""})
    EXPECT_EQ(m.read_number(none), std::nullopt) << none;
}

TEST_F(MachineTest, FollowsLinksInsideTheRootOnly) {
  const Machine m = machine(
      "== /sys/devices/pci/0000:03:00.0/vendor\n0x1002\n"
      "== /sys/class/drm/card0/device -> ../../../devices/pci/0000:03:00.0\n"
      "== /sys/absolute -> /sys/devices/pci\n"
      "== /sys/outside -> ../../../../../../../etc/passwd\n"
      "== /sys/a -> b\n== /sys/b -> a\n== /sys/nowhere -> gone\n");
  EXPECT_EQ(m.read_line("/sys/class/drm/card0/device/vendor"), "0x1002");
  EXPECT_EQ(m.resolve("/sys/class/drm/card0/device"), "/sys/devices/pci/0000:03:00.0");
  EXPECT_EQ(m.link("/sys/class/drm/card0/device"), "../../../devices/pci/0000:03:00.0");
  EXPECT_EQ(m.read_line("/sys/absolute/0000:03:00.0/vendor"), "0x1002");
  EXPECT_FALSE(m.read("/sys/outside"));  // not read from this machine, and the recorded one has none
  EXPECT_FALSE(m.read("/../../../../../../../../../../etc/passwd"));
  EXPECT_FALSE(m.exists("/sys/a"));
  EXPECT_FALSE(m.resolve("/sys/nowhere"));
  EXPECT_EQ(m.status("/sys/nowhere").kind, FileStatus::Kind::link);
}

TEST_F(MachineTest, ListsInTheOrderThatPeopleCount) {
  const Machine m = machine(
      "== /sys/class/drm/card10/x\n== /sys/class/drm/card2/x\n== /sys/class/drm/card1/x\n"
      "== /sys/class/drm/card1-DP-1/x\n== /sys/class/drm/renderD128/y\n");
  EXPECT_THAT(m.list("/sys/class/drm"), ElementsAre("card1", "card1-DP-1", "card2", "card10", "renderD128"));
  EXPECT_THAT(m.glob("/sys/class/drm/card?/x"),
              ElementsAre("/sys/class/drm/card1/x", "/sys/class/drm/card2/x"));
  EXPECT_THAT(m.glob("/sys/class/*/*128/y"), ElementsAre("/sys/class/drm/renderD128/y"));
  EXPECT_THAT(m.glob("/sys/class/drm/card?/z"), IsEmpty());
  EXPECT_THAT(m.list("/nothing"), IsEmpty());
}

TEST_F(MachineTest, KnowsWhoMayDoWhat) {
  const std::string facts =
      "== /machine.toml\n"
      "[files.\"/dev/kfd\"]\nmode = \"0660\"\ngid = 992\n"
      "[files.\"/var/log/kern.log\"]\nmode = \"0640\"\ngid = 4\n"
      "[disks.\"/home\"]\ntotal_bytes = 100\nfree_bytes = 7\nread_only = true\n"
      "== /dev/kfd\n== /etc/hosts\nlocalhost\n== /home/ada/x\nmine\n== /var/log/kern.log\nhello\n"
      "== /etc/passwd\nroot:x:0:0:root:/root:/bin/bash\nada:x:1000:1000:Ada,,,:/home/ada:/bin/zsh\n"
      "== /etc/group\nadm:x:4:syslog\nrender:x:992:ada\n"
      "== /proc/self/status\nName:\tathanor\nUid:\t1000\t1000\t1000\t1000\nGid:\t1000\t1000\t1000\t1000\n";
  const Machine outside = machine(facts + "Groups:\t4 1000 \n");
  EXPECT_EQ(outside.user().name, "ada");
  EXPECT_EQ(outside.user().home, "/home/ada");
  EXPECT_EQ(outside.status("/dev/kfd").kind, FileStatus::Kind::device);
  EXPECT_EQ(outside.access("/dev/kfd"), Access::none);
  EXPECT_EQ(outside.group_name(outside.status("/dev/kfd").gid), "render");
  EXPECT_EQ(outside.access("/etc/hosts"), Access::read);
  EXPECT_EQ(outside.access("/home/ada/x"), Access::read);  // she owns it, but the disk is read-only
  EXPECT_EQ(outside.disk("/home/ada")->free_bytes, 7U);
  EXPECT_FALSE(outside.disk("/etc"));
  EXPECT_EQ(outside.access("/gone"), Access::missing);
  EXPECT_EQ(outside.kernel_log(), "hello\n");
  const Machine inside = machine(facts + "Groups:\t992 1000 \n");
  EXPECT_EQ(inside.access("/dev/kfd"), Access::read_write);
  EXPECT_FALSE(inside.read("/var/log/kern.log"));
  EXPECT_FALSE(inside.kernel_log());
}

TEST_F(MachineTest, HasItsOwnEnvironmentAndClock) {
  setenv("ATHANOR_OF_THIS_PROCESS", "1", 1);
  const Machine m = machine(
      "== /machine.toml\n[clock]\nnow = 1790000000\n[environment]\nB = \"from toml\"\n"
      "== /proc/self/environ\nA=1\nB=2\nEMPTY=\nC=x=y\nno variable\n");
  EXPECT_THAT(m.environment_names(), ElementsAre("A", "B", "C", "EMPTY"));
  EXPECT_EQ(m.environment("B"), "from toml");
  EXPECT_EQ(m.environment("C"), "x=y");
  EXPECT_EQ(m.environment("EMPTY"), "");
  EXPECT_EQ(m.environment("ATHANOR_OF_THIS_PROCESS"), std::nullopt);
  EXPECT_EQ(m.now(), 1790000000);
  EXPECT_NE(m.recorded().find("from toml"), std::string::npos);
  EXPECT_EQ(machine("== /proc/self/environ\nA=1\n").user().uid, 0U);
}

TEST_F(MachineTest, FindsLibrariesAsTheLinkerDoes) {
  const Machine m = machine(
      "== /etc/ld.so.conf\ninclude /etc/ld.so.conf.d/*.conf\n"
      "== /etc/ld.so.conf.d/cuda.conf\n/usr/local/cuda/lib64  # toolkit\ninclude /etc/ld.so.conf\n"
      "== /proc/self/environ\nLD_LIBRARY_PATH=/opt/rocm/lib::/usr/local/cuda/lib64\n"
      "== /lib -> usr/lib\n"
      "== /opt/rocm/lib/libcuda.so.1\n== /usr/local/cuda/lib64/libcuda.so.1\n"
      "== /usr/lib/x86_64-linux-gnu/libcuda.so.1 -> libcuda.so.560.35.03\n"
      "== /usr/lib/x86_64-linux-gnu/libcuda.so.560.35.03\n");
  EXPECT_THAT(
      m.libraries("libcuda.so.*"),
      ElementsAre("/opt/rocm/lib/libcuda.so.1", "/usr/local/cuda/lib64/libcuda.so.1",
                  "/lib/x86_64-linux-gnu/libcuda.so.1", "/lib/x86_64-linux-gnu/libcuda.so.560.35.03"));
  EXPECT_THAT(m.libraries("libhsa*"), IsEmpty());
}

TEST_F(MachineTest, AnswersForHostileFiles) {
  Machine m = machine("== /sys/link -> /sys/pipe\n");
  ASSERT_EQ(mkfifo((folder_ / "root/sys/pipe").c_str(), 0600), 0);
  EXPECT_FALSE(m.read("/sys/link"));  // and it does not wait for a writer
  EXPECT_EQ(m.status("/sys/pipe").kind, FileStatus::Kind::other);
  write_file_atomically(folder_ / "root/sys/binary", std::string("\0\xff\xfe\n\0", 5));
  EXPECT_EQ(m.read_bytes("/sys/binary")->size(), 5U);
  EXPECT_EQ(m.read("/sys/binary"), "");
  EXPECT_FALSE(m.read_number("/sys/binary"));
  EXPECT_FALSE(m.exists(std::string(100'000, 'a')));
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "/..";
  EXPECT_EQ(m.resolve(deep), "/");
}

TEST_F(MachineTest, RefusesWhatIsNoMachine) {
  expect_error(ErrorCode::io, {"not a folder", "nowhere"}, [&] { Machine(folder_ / "nowhere"); });
  expect_error(ErrorCode::format, {"machine.toml:2"}, [&] { machine("== /machine.toml\na = 1\nb = [\n"); });
  for (const char* bad : {"files = 3", "[files.\"/a\"]\nmode = 660", "[files.\"/a\"]\nmode = \"0999\"",
                          "[disks.\"/\"]\nfree_bytes = -1", "[environment]\nA = 1", "[clock]\nnow = \"x\""})
    expect_error(ErrorCode::format, {"machine.toml"},
                 [&] { machine(std::string("== /machine.toml\n") + bad + "\n"); });
}

TEST(LiveMachine, IsTheOneWeRunOn) {
  const Machine m;
  EXPECT_TRUE(m.live());
  EXPECT_EQ(m.user().uid, geteuid());
  EXPECT_NE(m.environment("PATH"), std::nullopt);
  EXPECT_TRUE(m.exists("/"));
  EXPECT_EQ(m.recorded(), "{}");
  EXPECT_GT(m.now(), 1'600'000'000);
#ifdef __linux__
  EXPECT_EQ(m.read_line("/proc/self/comm"), "test_device");
  EXPECT_FALSE(m.read("/dev/zero"));
  EXPECT_GT(m.disk("/")->total_bytes, 0U);
#endif
}

// The mode is not enough: by the mode, root may write to the kernel's folders.
TEST_F(MachineTest, KnowsWhichFoldersTakeFiles) {
  const Machine live;
  const std::filesystem::path folder = folder_ / "empty";
  std::filesystem::create_directory(folder);
  EXPECT_EQ(live.refusal_of_files(folder.string()), "");
  EXPECT_TRUE(std::filesystem::is_empty(folder)) << "nothing is left";
  EXPECT_EQ(live.refusal_of_files((folder_ / "gone").string()), "not a folder");
#ifdef __linux__
  EXPECT_NE(live.refusal_of_files("/proc"), "");
  EXPECT_NE(live.refusal_of_files("/sys/kernel"), "");
#endif
  const std::string ada = "== /proc/self/status\nUid:\t1000\t1000\t1000\t1000\n== /etc/hosts\nlocalhost\n";
  EXPECT_EQ(machine(ada).refusal_of_files("/etc"), "not writable");
  EXPECT_EQ(machine("== /etc/hosts\nlocalhost\n").refusal_of_files("/etc"), "");  // as root
}

TEST_F(MachineTest, FixturesIncludeReplaceAddAndRemove) {
  write_file_atomically(folder_ / "gpu.machine",
                        "# one card\n== /sys/{{SLOT}}/id\n{{ID}}\n== /sys/{{SLOT}}/x\n");
  const Machine m = machine(
      "include gpu.machine SLOT=3 ID=a\ninclude gpu.machine SLOT=4 ID=b\n== /sys/3/id\nc\n++ /sys/4/id\nd\n"
      "--- /sys/3/x\n== /dev/dri/\n");
  EXPECT_EQ(m.read("/sys/3/id"), "c\n");
  EXPECT_EQ(m.read("/sys/4/id"), "b\nd\n");
  EXPECT_FALSE(m.exists("/sys/3/x"));
  EXPECT_TRUE(m.exists("/sys/4/x"));
  EXPECT_EQ(m.status("/dev/dri").kind, FileStatus::Kind::folder);
}

}  // namespace
}  // namespace athanor::testing
