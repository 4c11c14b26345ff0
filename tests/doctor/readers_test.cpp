// Readers of a machine's files: what they find, and that they do not hang on hostile files.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <map>
#include <nlohmann/json.hpp>

#include "athanor/base/file.h"
#include "athanor/base/sqlite.h"
#include "athanor/device/kfd.h"
#include "athanor/device/nvidia_version.h"
#include "athanor/device/pci.h"
#include "athanor/doctor/diagnosis.h"
#include "athanor/doctor/facts.h"
#include "athanor/doctor/facts/certificates.h"
#include "athanor/doctor/facts/network.h"
#include "athanor/doctor/facts/packages.h"
#include "athanor/doctor/plan.h"
#include "athanor/doctor/report.h"
#include "tests/doctor/fixture.h"

namespace athanor::doctor {
namespace {

using ::athanor::testing::TemporaryFolder;
using ::athanor::testing::UnpackedMachine;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(Metadata, HasFieldsUpToTheDescription) {
  const auto fields = parse_metadata(
      "Metadata-Version: 2.1\r\nName: torch\r\nSummary: a\n  b\nRequires-Dist: x; extra == 'y'\n\nName: not "
      "this\n");
  ASSERT_EQ(fields.size(), 4U);
  EXPECT_EQ(fields[1].second, "torch");
  EXPECT_EQ(fields[2].second, "a b");
  EXPECT_THAT(parse_metadata("\n"), IsEmpty());
  EXPECT_THAT(parse_metadata("no colon\n:x\n").size(), 1U);
}

TEST(Wheels, AreNamedByTheirFlavour) {
  EXPECT_EQ(cuda_of_flavour("cu128"), "12.8");
  EXPECT_EQ(cuda_of_flavour("cu118"), "11.8");
  EXPECT_EQ(cuda_of_flavour("cu"), "");
  EXPECT_EQ(cuda_of_flavour("cu12x"), "");
  EXPECT_EQ(cuda_of_flavour("cpu"), "");
  EXPECT_EQ(normalized("Jax_CUDA12.plugin"), "jax-cuda12-plugin");
}

// torch in a venv at /v, with these files.
TorchBuild torch_of(const std::string& dist_version, const std::string& version_py) {
  std::map<std::string, std::string> files = {
      {"/v/pyvenv.cfg", "home = /usr/bin\nversion = 3.12.1\n"},
      {"/v/bin/python3", ""},
      {"/v/lib/python3.12/site-packages/torch-" + dist_version + ".dist-info/METADATA", "Name: torch\n"},
      {"/proc/self/environ", "PATH=/v/bin\n"}};
  if (!version_py.empty()) files["/v/lib/python3.12/site-packages/torch/version.py"] = version_py;
  const UnpackedMachine machine(files);
  const Facts facts(*machine);
  EXPECT_EQ(facts.torches().size(), 1U);
  TorchBuild build = facts.torches().empty() ? TorchBuild{} : facts.torches().front();
  build.environment = nullptr;  // it would outlive the facts
  return build;
}

TEST(Torch, IsReadFromItsFiles) {
  EXPECT_EQ(torch_of("2.9.0+cu128", "").cuda, "12.8");
  EXPECT_EQ(torch_of("2.9.0+cpu", "").flavour, "cpu");
  EXPECT_EQ(torch_of("2.9.0+rocm6.4", "").rocm, "6.4");
  EXPECT_EQ(torch_of("2.6.0+rocm6.2.4", "").rocm, "6.2.4");
  // PyPI's own wheel has the variant only in version.py.
  const TorchBuild pypi = torch_of(
      "2.9.0", "__version__ = '2.9.0+cu128'\ncuda: Optional[str] = '12.8'\nhip: Optional[str] = None\n");
  EXPECT_EQ(pypi.flavour, "cu128");
  EXPECT_EQ(pypi.version, "2.9.0+cu128");
  EXPECT_EQ(torch_of("2.3.0", "__version__ = '2.3.0'\ncuda = '12.1'\nhip = None\n").flavour, "cu121");
  EXPECT_EQ(torch_of("2.3.0", "__version__ = '2.3.0'\ncuda = None\nhip = None\n").flavour, "cpu");
  EXPECT_EQ(torch_of("2.3.0a0+git1234",
                     "__version__ = '2.3.0a0+git1234'\ncuda = None\nhip = '6.2.41134-65d174c3e'\n")
                .rocm,
            "6.2");
  EXPECT_EQ(torch_of("2.3.0", "").flavour, "");  // unknown
  EXPECT_EQ(torch_of("2.3.0", "__version__ = '").version, "2.3.0");
}

TEST(StartFiles, AreUnderstoodWhereTheyArePlain) {
  const auto settings = parse_shell(
      "# A=comment\n"
      "A=1\n"
      "export B='two words' C=\"3\" # more\n"
      "D=4; export D\n"
      "E=5 command\n"
      "if true; then\n  F=6\nfi\n"
      "unset G\n"
      "[ -x /bin/x ] && H=8\n"
      "alias x='Y=1'\n",
      "f");
  std::map<std::string, Setting> by_name;
  for (const Setting& setting : settings) by_name[setting.name] = setting;
  EXPECT_EQ(by_name["A"].value, "1");
  EXPECT_FALSE(by_name["A"].exported);
  EXPECT_EQ(by_name["A"].where(), "f:2");
  EXPECT_EQ(by_name["B"].value, "two words");
  EXPECT_TRUE(by_name["B"].exported);
  EXPECT_EQ(by_name["C"].value, "3");
  EXPECT_TRUE(by_name["D"].exported);
  EXPECT_FALSE(by_name.contains("E"));  // it is only set for that command
  EXPECT_TRUE(by_name["F"].conditional);
  EXPECT_TRUE(by_name["G"].unset);
  EXPECT_TRUE(by_name["H"].conditional);
  EXPECT_FALSE(by_name.contains("Y"));
}

TEST(Packages, AreThoseThatAreInstalled) {
  const auto packages = parse_dpkg_status(
      "Package: a\nStatus: install ok installed\nVersion: 1:2.3-4\n\nPackage: b\nStatus: deinstall ok "
      "config-files\n"
      "Version: 1\n\nPackage: c\nVersion: 5\nStatus: install ok installed");
  EXPECT_THAT(packages, ElementsAre(::testing::Pair("a", "1:2.3-4"), ::testing::Pair("c", "5")));
}

std::string big_endian(uint32_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift);
  return bytes;
}

// Like rpm's lib/header.c: the region entry that holds all others comes first, then these.
std::string rpm_header(const std::string& name, const std::string& version, const std::string& release) {
  std::string data("C\0", 2), entries;
  uint32_t count = 1;
  const auto entry = [&](uint32_t tag, uint32_t type, size_t offset, uint32_t values) {
    entries +=
        big_endian(tag) + big_endian(type) + big_endian(static_cast<uint32_t>(offset)) + big_endian(values);
    ++count;
  };
  entry(100, 8, 0, 1);
  for (const auto& [tag, text] :
       {std::pair{1000U, name}, std::pair{1001U, version}, std::pair{1002U, release}}) {
    entry(tag, 6, data.size(), 1);
    data += text + '\0';
  }
  const std::string region =
      big_endian(63) + big_endian(7) + big_endian(static_cast<uint32_t>(data.size())) + big_endian(16);
  data += big_endian(63) + big_endian(7) + big_endian(0U - count * 16) + big_endian(16);
  return big_endian(count) + big_endian(static_cast<uint32_t>(data.size())) + region + entries + data;
}

TEST(Packages, OfRpmAreReadFromTheirHeaders) {
  const std::string header = rpm_header("glibc", "2.40", "3.fc41");
  EXPECT_THAT(parse_rpm_header(header), ::testing::Pair("glibc", "2.40-3.fc41"));
  for (size_t length = 0; length < header.size() - 16 - 7; ++length)
    EXPECT_EQ(parse_rpm_header(header.substr(0, length)).second.find("3.fc41"), std::string::npos) << length;
  std::string endless = header;
  endless.replace(0, 4, "\xff\xff\xff\xff");
  EXPECT_THAT(parse_rpm_header(endless), ::testing::Pair("", ""));
  std::string elsewhere = header;
  for (size_t at = 8; at + 16 <= 8 + 5 * 16; at += 16) elsewhere.replace(at + 8, 4, "\xff\xff\xff\xf0");
  EXPECT_THAT(parse_rpm_header(elsewhere), ::testing::Pair("", ""));
}

using Files = std::map<std::string, std::string>;

// A database like those of rpm 4.16 and later.
std::string rpm_database(const std::filesystem::path& place, const std::string& glibc) {
  sqlite3* database = open_database(place);
  run_sql(database, "CREATE TABLE 'Packages' (hnum INTEGER PRIMARY KEY AUTOINCREMENT, blob BLOB NOT NULL)");
  // With the names of files, a header is far longer than the part that is read.
  for (const std::string& header :
       {rpm_header("bash", "5.2", "1") + std::string(300'000, 'f'), rpm_header("glibc", glibc, "317.el7")})
    SqlStatement(database, "INSERT INTO Packages (blob) VALUES (?)").bind_bytes(header).run();
  close_database(database);
  return read_text_file(place);
}

TEST(Packages, AreReadFromTheDatabaseOfRpm) {
  const TemporaryFolder folder;
  const std::string database = rpm_database(folder / "rpmdb.sqlite", "2.17");
  const std::string system = "ID=\"centos\"\nID_LIKE=\"rhel fedora\"\n";
  const UnpackedMachine machine(Files{{"/var/lib/rpm/rpmdb.sqlite", database}, {"/etc/os-release", system}});
  const Facts facts(*machine);
  EXPECT_THAT(facts.packages().versions,
              ElementsAre(::testing::Pair("bash", "5.2-1"), ::testing::Pair("glibc", "2.17-317.el7")));
  EXPECT_EQ(facts.packages().record, "/var/lib/rpm/rpmdb.sqlite");
  EXPECT_EQ(diagnose(checks(), facts, {"system.glibc"}).find("system.glibc")->verdict, Verdict::warning);
  // No file was left beside it.
  EXPECT_THAT(machine->list("/var/lib/rpm"), ElementsAre("rpmdb.sqlite"));
}

TEST(Packages, ThatCannotBeReadAreSaidToBeUnknown) {
  const TemporaryFolder folder;
  std::string database = rpm_database(folder / "rpmdb.sqlite", "2.17");
  for (size_t at = 100; at < database.size(); at += 97) database[at] = static_cast<char>(at);
  for (const auto& [name, text] :
       {std::pair{"/usr/lib/sysimage/rpm/rpmdb.sqlite", database},
        std::pair{"/usr/lib/sysimage/rpm/rpmdb.sqlite", std::string("SQLite format 3")},
        std::pair{"/usr/lib/sysimage/rpm/Packages.db", std::string("RpmP")},
        std::pair{"/var/lib/rpm/Packages", std::string("x")}}) {
    const UnpackedMachine machine(Files{{name, text}});
    const Facts facts(*machine);
    EXPECT_EQ(facts.packages().unread, name);
    const Diagnosis diagnosis = diagnose(checks(), facts, {"system.glibc"});
    ASSERT_EQ(diagnosis.unknown().size(), 1U);
    EXPECT_EQ(diagnosis.unknown()[0]->finding.evidence.at(0).source, name);
  }
}

TEST(Packages, OfPacmanAreFolders) {
  EXPECT_THAT(parse_pacman_folder("lib32-glibc-2.40+r16-1"), ::testing::Pair("lib32-glibc", "2.40+r16-1"));
  EXPECT_THAT(parse_pacman_folder("ALPM_DB_VERSION"), ::testing::Pair("", ""));
  EXPECT_THAT(parse_pacman_folder("-1"), ::testing::Pair("", ""));
  const UnpackedMachine machine(Files{{"/var/lib/pacman/local/glibc-2.40+r16-1/desc", "%NAME%\nglibc\n"}});
  EXPECT_THAT(Facts(*machine).packages().versions, ElementsAre(::testing::Pair("glibc", "2.40+r16-1")));
}

TEST(Ports, AreThoseThatSomebodyListensOn) {
  EXPECT_THAT(listening_ports("  sl  local_address rem_address   st\n   0: 0100007F:733C 00000000:0000 0A 0\n"
                              "   1: 0100007F:1F90 0100007F:C350 01 0\n   2: "
                              "00000000000000000000000001000000:0016 0:0 0A\n   3: x"),
              ElementsAre(22, 29500));
}

// Made with: openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout /dev/null -subj
// /CN=a -days 3650
constexpr const char* certificate =
    "-----BEGIN CERTIFICATE-----\n"
    "MIIBbTCCAROgAwIBAgIUZvVxC2wb9GmP2YyVuHDCJUIFILAwCgYIKoZIzj0EAwIw\n"
    "DDEKMAgGA1UEAwwBYTAeFw0yNjExMjExODE5MzlaFw0zNjExMTgxODE5MzlaMAwx\n"
    "CjAIBgNVBAMMAWEwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAARchApl2qcSE0O3\n"
    "iydnPZt5YEOvySbrfE2ASKRv+gZykWuHXggYsIVlKez24ahG5mswggrqSPhV7axG\n"
    "ya7CI54Do1MwUTAdBgNVHQ4EFgQUeTWI4ofDM1JcTIEi0cdTw/Q+9fUwHwYDVR0j\n"
    "BBgwFoAUeTWI4ofDM1JcTIEi0cdTw/Q+9fUwDwYDVR0TAQH/BAUwAwEB/zAKBggq\n"
    "hkjOPQQDAgNIADBFAiAc8ct1Gv7l+dIIfpU+2SYvI488WoJDvI5YJWg5p9gGggIh\n"
    "AI8zzfRj+6IFpfcDBOOVoGv5jZb5nUoVxowsQLlz4r8N\n"
    "-----END CERTIFICATE-----\n";
constexpr int64_t certificate_end = 2'110'645'179;  // Nov 18 18:19:39 2036 GMT

TEST(Certificates, SayWhenTheyEnd) {
  EXPECT_THAT(certificate_ends(certificate), ElementsAre(certificate_end));
  EXPECT_THAT(certificate_ends(std::string(certificate) + certificate).size(), 2U);
}

TEST(Certificates, ThatAreCutOffAreLeftOut) {
  const std::string whole = certificate;
  for (size_t length = 0; length < whole.size(); length += 3)
    certificate_ends(whole.substr(0, length) + "-----END CERTIFICATE-----");
  EXPECT_THAT(certificate_ends("-----BEGIN CERTIFICATE-----\nMIQ=\n-----END CERTIFICATE-----"), IsEmpty());
}

TEST(NvidiaDriver, IsReadFromItsVersionFile) {
  EXPECT_EQ(nvidia_module_version(
                "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.161.08  Sat Feb 17 22:55:48 UTC 2024\n"),
            "535.161.08");
  EXPECT_EQ(nvidia_module_version(
                "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  560.35.03  Release Build  (dvs)\n"),
            "560.35.03");
  EXPECT_EQ(nvidia_module_version(""), "");
  EXPECT_EQ(nvidia_module_version("NVRM version: ...."), "");
}

TEST(Chips, AreNamedAsTheCompilerDoes) {
  EXPECT_EQ(gfx_name(100300), "gfx1030");
  EXPECT_EQ(gfx_name(90010), "gfx90a");
  EXPECT_EQ(gfx_name(90402), "gfx942");
  EXPECT_EQ(gfx_name(0), "");
  EXPECT_EQ(gfx_name(~uint64_t{0}), "");
  EXPECT_EQ(gfx_name(99999999), "");
  EXPECT_EQ(sm_number("sm_120"), 120);
  EXPECT_EQ(sm_number("gfx1030"), 0);
}

// If every file of a machine is broken in the same way, doctor still ends with a report.
TEST(HostileFiles, NeitherCrashNorHang) {
  const std::string binary("\x00\xff\x7f\x80\x01{{{{====\n\n\r\x1b[31m", 20);
  for (const char* name : {"doctor/healthy-rtx4090", "doctor/row09-wrong-override", "doctor/trap-overridden"})
    for (const std::string& text :
         {std::string(), binary, std::string(100'000, '9'), std::string(50'000, '\n'),
          std::string(30'000, '"'), std::string(20'000, '('),
          std::string(10'000, '=') + "\n" + std::string(10'000, ' ')}) {
      const UnpackedMachine machine(name);
      for (const auto& entry : std::filesystem::recursive_directory_iterator(machine.root()))
        if (entry.is_regular_file() && !entry.is_symlink() && entry.path().filename() != "machine.toml")
          std::ofstream(entry.path(), std::ios::binary) << text;
      const Machine broken(machine.root());
      const Facts facts(broken);
      const Diagnosis diagnosis = diagnose(checks(), facts);
      EXPECT_EQ(diagnosis.results.size(), checks().size()) << name;
      // Their contents neither break the report nor control the terminal.
      EXPECT_THAT(report_json(diagnosis, facts, Language::en).dump(), Not(HasSubstr("\\u00")));
      EXPECT_THAT(report_text(diagnosis, facts, {}), Not(HasSubstr("\x1b")));
      for (const char* goal : {"pytorch", "tensorflow", "jax", "athanor"})
        plan_text(make_plan(facts, goal), Language::zh);
    }
}

TEST(TruncatedFiles, NeitherCrashNorHang) {
  const UnpackedMachine machine("doctor/healthy-rtx4090");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(machine.root()))
    if (entry.is_regular_file() && !entry.is_symlink() && entry.path().filename() != "machine.toml")
      std::filesystem::resize_file(entry.path(), entry.file_size() / 2);
  const Machine cut(machine.root());
  EXPECT_EQ(diagnose(checks(), Facts(cut)).results.size(), checks().size());
}

// A configuration space with the given words at some offsets.
std::string config_space(size_t bytes, const std::map<size_t, uint32_t>& words) {
  std::string config(bytes, '\0');
  for (const auto& [offset, word] : words)
    for (size_t i = 0; i < 4; ++i) config[offset + i] = static_cast<char>(word >> (8 * i));
  return config;
}

TEST(Acs, IsFoundAmongTheExtendedCapabilities) {
  using State = AcsControl::State;
  // Advanced error reporting at 0x100, ACS at 0x148 with capability 0x001f and control 0x001d.
  const std::map<size_t, uint32_t> words = {{0x100, 0x14810001}, {0x148, 0x1501000d}, {0x14c, 0x001d001f}};
  const AcsControl acs = parse_acs(config_space(4096, words));
  EXPECT_EQ(acs.state, State::present);
  EXPECT_EQ(acs.bits, 0x1d);
  EXPECT_TRUE(acs.redirects());
  auto off = words;
  off[0x14c] = 0x0011001f;  // only source validation and upstream forwarding
  EXPECT_FALSE(parse_acs(config_space(4096, off)).redirects());
  EXPECT_EQ(parse_acs(config_space(4096, {{0x100, 0x00010001}})).state, State::absent);
  EXPECT_EQ(parse_acs(config_space(4096, {})).state, State::absent);  // no extended capabilities
  for (const size_t bytes : {0, 64, 256, 259, 260, 0x14c})            // what users may read, or cut off
    EXPECT_EQ(parse_acs(config_space(4096, words).substr(0, bytes)).state, State::unreadable) << bytes;
  EXPECT_EQ(parse_acs(std::string(4096, '\xff')).state, State::unreadable);  // the port no longer answers
  EXPECT_EQ(parse_acs(config_space(4096, {{0x100, 0x10010001}})).state, State::unreadable);  // a cycle
  EXPECT_EQ(parse_acs(config_space(4096, {{0x100, 0xffc10001}})).state, State::absent);
  EXPECT_EQ(parse_acs(config_space(4096, {{0x100, 0x04010001}})).state, State::unreadable);  // beyond the end
}

}  // namespace
}  // namespace athanor::doctor
