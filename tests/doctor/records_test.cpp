// What doctor records, fixes and exports.
#include "athanor/doctor/records.h"

#include <gmock/gmock.h>

#include "athanor/base/error.h"
#include "athanor/doctor/bundle.h"
#include "athanor/doctor/fix.h"
#include "athanor/doctor/redact.h"
#include "tests/doctor/fixture.h"

namespace athanor::doctor {
namespace {

using ::athanor::testing::MachineFixture;
using ::athanor::testing::TemporaryFolder;
using ::athanor::testing::UnpackedMachine;
using ::testing::HasSubstr;
using ::testing::Not;

const Check& check_named(std::string_view id) {
  for (const Check& check : checks())
    if (check.id == id) return check;
  throw std::runtime_error("no such check");
}

TEST(Records, LearnWhichFixWorksOnWhichMachines) {
  const TemporaryFolder folder;
  const std::string kind = "nvidia sm_89, ubuntu 24.04";
  {
    Records records(folder.path() / "new" / "doctor.db");
    records.add({1, kind, "failed", "nvidia.driver.mismatch", "restart"});
    records.add({2, kind, "worked", "nvidia.driver.mismatch", "reload-module"});
    records.add({3, "other", "worked", "nvidia.driver.mismatch", "restart"});
  }
  const Records records(folder.path() / "new" / "doctor.db");  // the records were kept
  Result result{&check_named("nvidia.driver.mismatch"), fail(), Verdict::problem, {}};
  EXPECT_EQ(offers(result).front().fix->id, "restart");
  const auto here =
      offers(result, [&](const Check& check, Offer& offer) { records.score(kind, check, offer); });
  EXPECT_EQ(here.front().fix->id, "reload-module");
  EXPECT_EQ(here.front().tried, 1);
  const auto elsewhere =
      offers(result, [&](const Check& check, Offer& offer) { records.score("other", check, offer); });
  EXPECT_EQ(elsewhere.front().fix->id, "restart");
  ASSERT_EQ(records.history().size(), 3U);
  EXPECT_EQ(records.history().front().time, 3);  // the newest first
}

TEST(Records, DoNotRepeatADiagnosis) {
  const TemporaryFolder folder;
  const UnpackedMachine machine("doctor/row03-kfd-permission");
  Records records(folder.path() / "doctor.db");
  const Diagnosis diagnosis = diagnose(checks(), Facts(*machine));
  records.add(diagnosis, 1);
  records.add(diagnosis, 2);
  EXPECT_EQ(records.history().size(), 1U);
  records.add({3, diagnosis.kind, "failed", "amd.kfd.permission", "join-group"});
  records.add(diagnosis, 4);
  EXPECT_EQ(records.history().size(), 3U);
  EXPECT_EQ(records.history().front().kind, "amd gfx1030, ubuntu 24.04");
}

TEST(Records, ThatCannotBeKeptAreNoError) {
  Records nowhere{std::filesystem::path()};
  nowhere.add({1, "k", "found", "c", ""});
  EXPECT_TRUE(nowhere.history().empty());
  const TemporaryFolder folder;
  write_file_atomically(folder.path() / "doctor.db",
                        "this is no database, and long enough to be looked at as one");
  Records damaged(folder.path() / "doctor.db");
  damaged.add({1, "k", "found", "c", ""});
  EXPECT_TRUE(damaged.history().empty());
}

// A problem of a machine, and its first fix that --fix can apply.
struct Mendable {
  explicit Mendable(const std::string& name, const std::string& id)
      : machine(name),
        facts(*machine),
        diagnosis(diagnose(checks(), facts)),
        result(diagnosis.find(id)),
        all(offers(*result)),
        offer(automatic(all)) {}
  UnpackedMachine machine;
  Facts facts;
  Diagnosis diagnosis;
  const Result* result;
  std::vector<Offer> all;
  const Offer* offer;

  std::string text(const std::string& path) const { return (*machine).read(path).value_or(""); }
  Verdict verdict_in_new_shell() const {
    return diagnose(checks(), Facts(*machine, true)).find(result->check->id)->verdict;
  }
};

TEST(Fixing, SetsVariablesForNewShells) {
  const Mendable it("doctor/row15-integrated-and-discrete", "amd.mixed");
  ASSERT_NE(it.offer, nullptr);
  const std::string before = it.text("/home/ada/.bashrc");
  {
    Applied applied(*it.machine, changes_of(it.facts, *it.result, *it.offer));
    applied.keep();
  }
  EXPECT_THAT(it.text("/home/ada/.config/athanor/env"), HasSubstr("export HIP_VISIBLE_DEVICES=0\n"));
  EXPECT_THAT(it.text("/home/ada/.bashrc"),
              HasSubstr("/home/ada/.config/athanor/env  # added by athanor doctor\n"));
  EXPECT_EQ(it.text("/home/ada/.bashrc.athanor-backup"), before);
  EXPECT_EQ(it.verdict_in_new_shell(), Verdict::ok);
  // Applied again, it only writes the environment file, without duplicates.
  const auto again = changes_of(Facts(*it.machine), *it.result, *it.offer);
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again.front().text, it.text("/home/ada/.config/athanor/env"));
}

TEST(Fixing, UnsetsVariables) {
  const Mendable it("doctor/row09-wrong-override", "amd.gfx_override");
  Applied applied(*it.machine, changes_of(it.facts, *it.result, *it.offer));
  EXPECT_THAT(it.text("/home/ada/.config/athanor/env"), HasSubstr("unset HSA_OVERRIDE_GFX_VERSION\n"));
  EXPECT_EQ(it.verdict_in_new_shell(), Verdict::skipped);
}

TEST(Fixing, MovesADamagedCacheAside) {
  const Mendable it("doctor/trap-cache-damaged", "environment.cache.corrupt");
  Applied applied(*it.machine, changes_of(it.facts, *it.result, *it.offer));
  EXPECT_FALSE((*it.machine).exists("/home/ada/.cache/athanor/athanor.db"));
  EXPECT_TRUE((*it.machine).exists("/home/ada/.cache/athanor/athanor.db.damaged"));
  EXPECT_EQ(it.verdict_in_new_shell(), Verdict::skipped);
}

TEST(Fixing, IsTakenBackUnlessKept) {
  const Mendable it("doctor/row09-wrong-override", "amd.gfx_override");
  const std::string before = it.text("/home/ada/.bashrc");
  { const Applied applied(*it.machine, changes_of(it.facts, *it.result, *it.offer)); }
  EXPECT_EQ(it.text("/home/ada/.bashrc"), before);
  EXPECT_FALSE((*it.machine).exists("/home/ada/.config/athanor/env"));
  EXPECT_FALSE((*it.machine).exists("/home/ada/.bashrc.athanor-backup"));
}

TEST(Fixing, LeavesNothingHalfDone) {
  const Mendable it("doctor/row09-wrong-override", "amd.gfx_override");
  auto changes = changes_of(it.facts, *it.result, *it.offer);
  changes.push_back({Change::Kind::move, "/not/there", "/not/there.damaged", ""});
  const std::string before = it.text("/home/ada/.bashrc");
  EXPECT_THROW(Applied(*it.machine, changes), Error);
  EXPECT_EQ(it.text("/home/ada/.bashrc"), before);
  EXPECT_FALSE((*it.machine).exists("/home/ada/.config/athanor/env"));
}

// Only the user's own files: no action of --fix writes anywhere else.
TEST(Fixing, StaysInTheUsersFiles) {
  for (const auto& file :
       std::filesystem::directory_iterator(::athanor::testing::machines_folder() / "doctor")) {
    if (file.path().extension() != ".machine") continue;
    const UnpackedMachine machine("doctor/" + file.path().stem().string());
    const Facts facts(*machine);
    const Diagnosis diagnosis = diagnose(checks(), facts);
    for (const Verdict verdict : {Verdict::problem, Verdict::warning})
      for (const Result* result : diagnosis.with(verdict))
        for (const Offer& offer : offers(*result))
          for (const Change& change : changes_of(facts, *result, offer))
            EXPECT_TRUE(change.path.starts_with("/home/ada/")) << change.path;
  }
}

TEST(Redaction, TakesOutWhoseMachineItIs) {
  const UnpackedMachine machine("doctor/private");
  const Redaction redacted(*machine);
  EXPECT_EQ(redacted("/home/margarete/venv"), "/home/<user>/venv");
  EXPECT_EQ(redacted("built by Margarete Holzapfel on elderberry.example.org"), "built by <user> on <host>");
  EXPECT_EQ(redacted("ether 3c:7c:3f:1a:2b:4c up"), "ether <mac> up");
  EXPECT_EQ(redacted("GPU-8a1c2f1e-5a7b-11ee-9c1d-0123456789ab"), "GPU-<uuid>");
  EXPECT_EQ(redacted("root=UUID=6c1d1c61-27ab-4d11-8a3a-19c40fcdf7ae ro"), "root=UUID=<uuid> ro");
  EXPECT_EQ(redacted("Serial Number: 1654922006536"), "Serial Number: <serial>");
  EXPECT_EQ(redacted("unique_id 0x3ab4c1d2e3f40516"), "unique_id <serial>");
  EXPECT_EQ(redacted("from 192.168.178.21 and fe80::3e7c:3fff:fe1a:2b4c"), "from <ip> and <ip>");
  EXPECT_EQ(redacted("margarete@elderberry:~$"), "<user>@<host>:~$");
  EXPECT_EQ(redacted("to m.holzapfel@example.org"), "to <mail>");
  EXPECT_EQ(redacted("board PF3X9K2M"), "board <serial>");
  // What a bug report needs is kept.
  for (const char* text :
       {"0000:03:00.0", "6.8.0-48-generic", "libcuda.so.535.161.08", "torch 2.9.0+rocm6.4", "gfx1030", "a::b",
        "12:34:56", "version 10.3.0", "Xid (PCI:0000:01:00): 79", "std::string"})
    EXPECT_EQ(redacted(text), text);
}

TEST(Bundle, SaysNothingPrivateAndCanBeUnpacked) {
  const UnpackedMachine machine("doctor/private");
  const Facts facts(*machine);
  const Diagnosis diagnosis = diagnose(checks(), facts);
  const std::string bundle = make_bundle(diagnosis, facts);
  for (const char* secret : {"margarete", "Margarete", "holzapfel", "Holzapfel", "elderberry", "3c:7c:3f",
                             "8a1c2f1e", "6c1d1c61", "1654922006536", "PF3X9K2M", "192.168.178.21",
                             "3ab4c1d2e3f40516", "hunter2", "b08dfa6083e7567a1921a715000001fb"})
    EXPECT_THAT(bundle, Not(HasSubstr(secret)));
  const TemporaryFolder folder;
  write_file_atomically(folder.path() / "bundle.machine", bundle);
  MachineFixture(folder.path() / "bundle.machine").unpack(folder.path() / "root");
  const Machine unpacked(folder.path() / "root");
  const Facts there(unpacked);
  EXPECT_EQ(there.gpus().size(), facts.gpus().size());
  EXPECT_EQ(there.system().kernel, facts.system().kernel);
  EXPECT_TRUE(unpacked.read("/report.json"));
}

TEST(Bundle, HasTheGpuOfWindows) {
  ATHANOR_NEEDS_BACKENDS();
  const UnpackedMachine machine("wsl-rtx4090");
  const Facts facts(*machine);
  const TemporaryFolder folder;
  write_file_atomically(folder.path() / "bundle.machine", make_bundle(diagnose(checks(), facts), facts));
  MachineFixture(folder.path() / "bundle.machine").unpack(folder.path() / "root");
  const Machine unpacked(folder.path() / "root");
  const Facts there(unpacked);
  ASSERT_EQ(there.gpus().size(), 1U);
  EXPECT_EQ(there.gpus().front().title(), "NVIDIA GeForce RTX 4090 (sm_89)");
  EXPECT_EQ(there.nvidia().version, "572.16");
}

}  // namespace
}  // namespace athanor::doctor
