// Failures that must be reported: lost output, a mistyped run, a run that is told to stop, an unusable cache,
// invalid files.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <zlib.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>

#include "athanor/base/sqlite.h"
#include "tests/cli/program_test.h"

namespace athanor {
namespace {

using nlohmann::json;
using testing::Outcome;
using testing::Program;
using Words = std::vector<std::string>;

void expect_says(const Outcome& outcome, const Words& words) {
  for (const std::string& word : words)
    EXPECT_NE(outcome.err.find(word), std::string::npos) << "'" << word << "' in: " << outcome.err;
}

class Safety : public testing::ProgramTest {
 protected:
  /// A small run on the CPU, with a dataset made up here.
  Words train(const std::string& out, const Words& more = {}, const std::string& model = "mlp") {
    write_data();
    Words words{"train", "--model",   model, "--data", "./data", "--device", "cpu", "--batch-size",
                "8",     "--threads", "1",   "--seed", "5",      "--out",    out};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  void write_data() {
    if (std::filesystem::exists(folder_ / "data")) return;
    std::filesystem::create_directories(folder_ / "data");
    const auto write = [&](const std::string& file, const std::string& shape, size_t bytes) {
      std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': (" + shape + "), }";
      header.resize(118 - 1, ' ');
      std::string text = std::string("\x93NUMPY\x01\x00", 8) + std::string("\x76\x00", 2) + header + '\n';
      for (size_t i = 0; i < bytes; ++i) text += static_cast<char>(bytes > 200 ? i * 37 % 251 : i % 4);
      write_file_atomically(folder_ / "data" / file, text);
    };
    for (const std::string split : {"train", "test"}) {
      write(split + "_images.npy", "80, 8, 8", 80 * 64);
      write(split + "_labels.npy", "80,", 80);
    }
  }
  /// Makes a model to predict with.
  void make_run() { ASSERT_EQ(run(train("runs/a", {"--max-steps", "2"})).exit_code, 0); }
  std::filesystem::path cache() const { return folder_ / "cache/athanor.db"; }
};

TEST_F(Safety, OutputThatIsLostIsAnError) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "there is no /dev/full here";
  make_run();
  const std::string image = ATHANOR_SOURCE_DIR "/tests/fuzz/corpus/image/grey.png";
  for (const Words& command :
       std::vector<Words>{{"--version"},
                          {"--help"},
                          {"train", "--help"},
                          train("b", {"--max-steps", "2"}),
                          train("c", {"--max-steps", "2", "--json"}),
                          {"train", "--resume", "--out", "runs/a"},
                          {"eval", "runs/a", "--device", "cpu"},
                          {"predict", image, "--device", "cpu"},
                          {"predict", image, "--device", "cpu", "--json"},
                          {"explain", "--model", "mlp", "--deterministic"},
                          {"runs", "ls", "runs"},
                          {"runs", "ls", "runs", "--json"},
                          {"runs", "compare", "runs/a", "runs/a"},
                          {"fit", "--model", "mlp", "--memory-limit", "16MiB"},
                          {"data", "fashion-mnist"},
                          {"tune", "--gemm", "8x8x8", "--device", "cpu"},
                          {"kernels", "dump", "--model", "mlp", "--arch", "gfx1100", "--out", "k"},
                          {"completion", "bash"},
                          {"completion", "man"},
                          {"detect"},
                          {"detect", "--json"},
                          {"detect", "--topology"},
                          {"cache", "ls"},
                          {"doctor", "--list"},
                          {"doctor", "--plan", "athanor"},
                          {"doctor", "history", "--json"}}) {
    const Outcome outcome = run(command, "/dev/full");
    const int failed = command.front() == "doctor" ? 3 : 1;  // doctor's 1 means problems
    EXPECT_EQ(outcome.exit_code, failed) << ::testing::PrintToString(command) << outcome.err;
    expect_says(outcome, {"cannot write to standard output", "No space left on device"});
  }
  EXPECT_TRUE(std::filesystem::exists(folder_ / "b/summary.json")) << "the run itself is whole";
}

TEST_F(Safety, AMistypedRunIsNotStartedAnew) {
  make_run();
  const Outcome outcome = run({"train", "--resume", "--out", "runs/b"});
  EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
  expect_says(outcome, {"no run", "runs/b", "'runs/a'", "leave out --resume"});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "runs/b"));
  const Outcome far = run({"train", "--resume", "--out", "somewhere/else/entirely/"});
  EXPECT_EQ(far.exit_code, 2) << far.err;
  expect_says(far, {"no run", "'runs/a'"});
}

/// Sends each signal after some steps, and checks that the run is saved and can be resumed.
TEST_F(Safety, EverySignalToStopSavesTheRun) {
  const Words endless{"--epochs", "100000", "--deterministic"};
  ASSERT_EQ(run(train("whole", {"--epochs", "100000", "--deterministic", "--max-steps", "40", "--quiet"}))
                .exit_code,
            0);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const std::string name = "run" + std::to_string(signal);
    Program program(folder_.path(), train(name, endless));
    program.wait_for_lines(folder_ / name / "metrics.jsonl", 12);
    program.send(signal);
    const Outcome outcome = program.wait();
    EXPECT_EQ(outcome.exit_code, 128 + signal) << outcome.err;
    expect_says(outcome, {"saved after step", "--resume --out " + name});
    const Outcome resumed = run({"train", "--resume", "--out", name, "--max-steps", "40", "--quiet"});
    EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
    const std::string whole = text("whole/metrics.jsonl"), run = text(name + "/metrics.jsonl");
    EXPECT_TRUE(run == whole || (run.size() > whole.size() && run.starts_with(whole))) << name;
  }
}

// When a terminal is closed, both the terminal and its shell send a SIGHUP.
TEST_F(Safety, AHangUpInTwosIsOne) {
  Program program(folder_.path(), train("run", {"--epochs", "100000", "--deterministic"}));
  program.wait_for_lines(folder_ / "run/metrics.jsonl", 5);
  program.send(SIGHUP);
  program.send(SIGHUP);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.exit_code, 128 + SIGHUP) << outcome.err;
  expect_says(outcome, {"saved after step"});
}

TEST_F(Safety, WhatIsIgnoredStaysIgnored) {  // nohup
  const auto before = std::signal(SIGHUP, SIG_IGN);
  Program program(folder_.path(), train("run", {"--epochs", "100000", "--deterministic"}));
  std::signal(SIGHUP, before);
  program.wait_for_lines(folder_ / "run/metrics.jsonl", 3);
  program.send(SIGHUP);
  program.wait_for_lines(folder_ / "run/metrics.jsonl", 30);
  EXPECT_TRUE(program.running());
  program.send(SIGTERM);
  EXPECT_EQ(program.wait().exit_code, 128 + SIGTERM);
}

TEST_F(Safety, APipeThatIsClosedSavesTheRun) {
  const std::filesystem::path pipe = folder_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  // An epoch is ten steps, and prints a line.
  Program program(folder_.path(), train("run", {"--epochs", "100000", "--deterministic"}), pipe);
  program.wait_for_lines(folder_ / "run/metrics.jsonl", 12);
  close(reader);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.exit_code, 128 + SIGPIPE) << outcome.err;
  expect_says(outcome, {"saved after step", "--resume --out run"});
  EXPECT_EQ(run({"eval", "run", "--device", "cpu"}).exit_code, 0);
  EXPECT_EQ(run({"train", "--resume", "--out", "run", "--max-steps", "100", "--quiet"}).exit_code, 0);
}

// `head` ends after the first line, before training begins.
TEST_F(Safety, APipeThatIsClosedEarlyEndsTheRun) {
  std::string command =
      "cd '" + folder_.path().string() + "' && ATHANOR_CACHE=cache " ATHANOR_BINARY_DIR "/athanor";
  for (const std::string& word : train("run", {"--epochs", "100000", "--deterministic"}))
    command += " " + word;
  command += " 2> err | head -1 > out";
  const int status = std::system(("bash -o pipefail -c \"" + command + "\"").c_str());
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGPIPE);
  EXPECT_NE(text("out").find("mlp"), std::string::npos);
  EXPECT_NE(text("err").find("--resume --out run"), std::string::npos) << text("err");
}

// A ResNet's first step takes long, because its kernels are chosen by timing. It stops between two of these.
TEST_F(Safety, AStepThatTakesLongIsLeft) {
  Program program(folder_.path(), train("run", {}, "resnet18"));
  while (program.running() && !std::filesystem::exists(cache()))
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const double before = program.cpu_seconds();
  program.send(SIGTERM);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.exit_code, 128 + SIGTERM) << outcome.err;
  expect_says(outcome, {"stopped before a step was made", "--resume --out run"});
  EXPECT_LT(outcome.cpu_seconds - before, 5) << "the whole step takes many times as long";
}

TEST_F(Safety, ASecondSignalEndsAtOnce) {
  Program program(folder_.path(), train("run", {"--epochs", "100000", "--deterministic"}));
  program.wait_for_lines(folder_ / "run/metrics.jsonl", 3);
  program.send(SIGSTOP);  // so that both signals arrive before it checks for them
  program.send(SIGINT);
  program.send(SIGTERM);
  program.send(SIGCONT);
  const Outcome outcome = program.wait();
  EXPECT_TRUE(outcome.exit_code == 128 + SIGTERM || outcome.exit_code == 128 + SIGINT) << outcome.exit_code;
  EXPECT_EQ(outcome.err.find("saved"), std::string::npos) << outcome.err;
}

int64_t version_of(const std::filesystem::path& file) {
  sqlite3* database = open_database(file);
  int64_t version = -1;
  if (SqlStatement statement(database, "PRAGMA user_version"); statement.step())
    version = statement.integer(0);
  close_database(database);
  return version;
}

TEST_F(Safety, ACacheOfALaterVersionIsLeftAlone) {
  make_run();
  sqlite3* database = open_database(cache());
  ASSERT_TRUE(run_sql(database, "PRAGMA user_version=999; INSERT INTO marks VALUES('kept', 'kept', '')"));
  close_database(database);
  const Outcome outcome = run(train("b", {"--max-steps", "2", "--quiet"}));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  expect_says(outcome, {"athanor.db is of a later version", "999", "nothing is remembered"});
  EXPECT_EQ(outcome.err.find("note", outcome.err.find("note") + 1), std::string::npos)
      << "once: " << outcome.err;
  const Outcome clear = run({"cache", "clear"});
  EXPECT_EQ(clear.exit_code, 1) << clear.err;
  const Outcome list = run({"cache", "ls"});
  EXPECT_EQ(list.out.find("tuning results"), std::string::npos) << list.out;
  expect_says(list, {"athanor.db is of a later version"});
  const Outcome doctor = run({"doctor", "--only", "environment.cache", "--json"});
  EXPECT_EQ(doctor.exit_code, 1) << doctor.out;
  EXPECT_NE(doctor.out.find("format 999"), std::string::npos) << doctor.out;
  EXPECT_EQ(version_of(cache()), 999);
  database = open_database(cache());
  {
    SqlStatement kept(database, "SELECT count(*) FROM marks WHERE key='kept'");
    ASSERT_TRUE(kept.step());
    EXPECT_EQ(kept.integer(0), 1);
  }
  close_database(database);
}

// SQLite reports only that the file is missing.
TEST_F(Safety, ACacheFolderThatTakesNoFileIsSaid) {
  std::filesystem::create_symlink("/sys/kernel", folder_ / "cache");
  expect_says(run({"cache", "ls"}), {"athanor.db cannot be used (its folder takes no new file: ",
                                     "nothing is remembered by this process (ATHANOR_CACHE names another"});
  // By the folder's mode root may write there, but in fact it cannot.
  const Outcome doctor = run({"doctor", "--only", "environment.cache", "--json"});
  EXPECT_EQ(doctor.exit_code, 1) << doctor.out;
  EXPECT_EQ(doctor.out.find("chown"), std::string::npos) << doctor.out;
  EXPECT_NE(doctor.out.find("export ATHANOR_CACHE="), std::string::npos) << doctor.out;
}

TEST_F(Safety, ACacheThatCannotBeUsedIsSaid) {
  const std::filesystem::path place = folder_ / "cache";
  struct Place {
    const char* leads_to;  // "": no link, but a file
    const char* reason;
  };
  for (const auto& [leads_to, reason] : std::vector<Place>{
           {"", "Not a directory"}, {"/dev/null", "Not a directory"}, {"/proc/x", "cache: "}}) {
    SCOPED_TRACE(leads_to);
    std::filesystem::remove(place);
    if (*leads_to == '\0')
      std::ofstream(place) << "a file";
    else
      std::filesystem::create_symlink(leads_to, place);
    const Outcome explained = run({"explain", "--model", "mlp", "--device", "cpu"});
    EXPECT_EQ(explained.exit_code, 0) << explained.err;
    expect_says(explained, {"athanor.db cannot be used", reason, "nothing is remembered"});
    EXPECT_EQ(explained.err.find("note", explained.err.find("note") + 1), std::string::npos)
        << "once: " << explained.err;
    const Outcome list = run({"cache", "ls"});
    expect_says(list, {"athanor.db cannot be used", reason});
    EXPECT_EQ(list.out.find("tuning results"), std::string::npos) << list.out;
    EXPECT_NE(json::parse(run({"cache", "ls", "--json"}).out).at("not_used").get<std::string>().find(reason),
              std::string::npos);
    const Outcome doctor = run({"doctor", "--only", "environment.cache", "--json"});
    EXPECT_EQ(doctor.exit_code, 1) << doctor.out;
    EXPECT_EQ(doctor.out.find("chown"), std::string::npos) << doctor.out;
  }
}

TEST_F(Safety, ALockedCacheIsNotWaitedForLong) {
  make_run();
  const auto time = [&](const std::string& out) {
    const auto start = std::chrono::steady_clock::now();
    const Outcome outcome = run(train(out, {"--max-steps", "2", "--quiet"}));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return std::pair(outcome,
                     std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  };
  // So that the run has something to write to the cache.
  const auto forget_and = [&](const std::string& lock) {
    sqlite3* database = open_database(cache());
    EXPECT_TRUE(run_sql(database, "DELETE FROM winners; " + lock));
    return database;
  };
  close_database(forget_and(""));
  const double free = time("free").second;
  for (const char* lock : {"BEGIN EXCLUSIVE", "PRAGMA locking_mode=EXCLUSIVE; BEGIN EXCLUSIVE"}) {
    sqlite3* database = forget_and(lock);
    const auto [outcome, seconds] = time(std::string("locked") + std::to_string(std::string(lock).size()));
    expect_says(outcome, {"athanor.db is locked by another program", "remembered"});
    EXPECT_LT(seconds, 3 * free + 4) << "with 0.5 s of waiting; other programs slow both alike";
    close_database(database);
  }
}

TEST_F(Safety, ADamagedCacheIsSaidAndMovedAside) {
  make_run();
  {
    sqlite3* database = open_database(cache());
    run_sql(database, "PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode=DELETE");
    close_database(database);
  }
  ASSERT_EQ(run({"doctor", "--only", "environment.cache.corrupt"}).exit_code, 0);
  std::string bytes = text("cache/athanor.db");
  ASSERT_GT(bytes.size(), 8192U);
  for (size_t i = 4096; i < 8192; ++i) bytes[i] = static_cast<char>(i * 31);  // the header is kept
  write_file_atomically(cache(), bytes);
  const Outcome found = run({"doctor", "--only", "environment.cache.corrupt", "--json"});
  EXPECT_EQ(found.exit_code, 1) << found.out;
  EXPECT_NE(found.out.find("environment.cache.corrupt"), std::string::npos);
  run({"doctor"});  // whole: it also asks what examinations found
  EXPECT_EQ(text("cache/athanor.db"), bytes) << "doctor only looks";
  const Outcome outcome = run(train("b", {"--max-steps", "2", "--quiet"}));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  expect_says(outcome, {"athanor.db is damaged", "moved to", "athanor.db.damaged"});
  EXPECT_EQ(text("cache/athanor.db.damaged"), bytes);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "cache/athanor.db.moving"));
  EXPECT_EQ(run(train("c", {"--max-steps", "2", "--quiet"})).err, "") << "the new one is whole";
  EXPECT_EQ(run({"doctor", "--only", "environment.cache.corrupt"}).exit_code, 0);
}

// The head holds the version too, which may then be any number. A file of a later version would stay.
TEST_F(Safety, ACacheWhoseHeadIsDamagedIsNotOfALaterVersion) {
  make_run();
  {
    sqlite3* database = open_database(cache());
    run_sql(database, "PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode=DELETE");
    close_database(database);
  }
  const std::string whole = text("cache/athanor.db");
  for (const size_t from : {16U, 40U, 60U}) {
    SCOPED_TRACE(from);
    std::string bytes = whole;
    for (size_t i = from; i < 100; ++i) bytes[i] = static_cast<char>(i * 31 % 127 + 1);
    write_file_atomically(cache(), bytes);
    const Outcome found =
        run({"doctor", "--only", "environment.cache", "environment.cache.corrupt", "--json"});
    EXPECT_EQ(found.exit_code, 1) << found.out;
    EXPECT_NE(found.out.find("its head is not a database's"), std::string::npos) << found.out;
    EXPECT_EQ(found.out.find("later"), std::string::npos) << found.out;
    const Outcome outcome = run({"explain", "--model", "mlp", "--device", "cpu"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    expect_says(outcome, {"athanor.db is damaged", "moved to", "athanor.db.damaged"});
    EXPECT_EQ(run({"explain", "--model", "mlp", "--device", "cpu"}).err, "") << "the new one is whole";
    std::filesystem::remove(folder_ / "cache/athanor.db.damaged");
  }
}

/// A grey PNG of zeros, width x height, in only width * height / 1000 bytes.
std::string huge_png(uint32_t width, uint32_t height) {
  const auto number = [](uint32_t value) {
    std::string text;
    for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(value >> shift & 255);
    return text;
  };
  std::string file = "\x89PNG\r\n\x1a\n";
  const auto chunk = [&](const std::string& type, const std::string& data) {
    const std::string body = type + data;
    file +=
        number(static_cast<uint32_t>(data.size())) + body +
        number(static_cast<uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(body.data()), body.size())));
  };
  chunk("IHDR", number(width) + number(height) + std::string("\x08\x00\x00\x00\x00", 5));
  z_stream stream{};
  deflateInit(&stream, 9);
  std::string packed, row(size_t{width} + 1, '\0');
  std::vector<char> out(1 << 16);
  for (uint32_t y = 0; y < height; ++y) {
    stream.next_in = reinterpret_cast<Bytef*>(row.data());
    stream.avail_in = static_cast<uInt>(row.size());
    do {
      stream.next_out = reinterpret_cast<Bytef*>(out.data());
      stream.avail_out = static_cast<uInt>(out.size());
      deflate(&stream, y + 1 == height ? Z_FINISH : Z_NO_FLUSH);
      packed.append(out.data(), out.size() - stream.avail_out);
    } while (stream.avail_out == 0);
  }
  deflateEnd(&stream);
  chunk("IDAT", packed);
  chunk("IEND", "");
  return file;
}

TEST_F(Safety, FilesThatAreNoneAreNamed) {
  make_run();
  ASSERT_EQ(mkfifo((folder_ / "fifo").c_str(), 0600), 0);
  std::filesystem::create_directories(folder_ / "folder");
  std::ofstream(folder_ / "sparse.png").close();
  std::filesystem::resize_file(folder_ / "sparse.png", uintmax_t{1} << 40);
  write_file_atomically(folder_ / "huge.png", huge_png(16000, 16000));
  EXPECT_LT(std::filesystem::file_size(folder_ / "huge.png"), 400'000U);
  struct Bad {
    std::string file;
    Words says;
  };
  for (const Bad& bad : std::vector<Bad>{{"/dev/zero", {"/dev/zero", "device"}},
                                         {"folder", {"folder", "This is a folder"}},
                                         {"sparse.png", {"sparse.png", "longer than 512 MiB"}},
                                         {"huge.png", {"huge.png", "16000 x 16000 pixels", "smaller"}}}) {
    const Outcome outcome = run({"predict", bad.file, "--device", "cpu"});
    EXPECT_EQ(outcome.exit_code, 1) << bad.file << outcome.err;
    expect_says(outcome, bad.says);
  }
  for (const char* checkpoint : {"/dev/zero", "sparse.png"}) {
    const Outcome outcome = run({"eval", checkpoint, "--device", "cpu"});
    EXPECT_EQ(outcome.exit_code, 1) << checkpoint << outcome.err;
    expect_says(outcome, {checkpoint});
  }
}

TEST_F(Safety, APipeThatNobodyWritesToIsNotWaitedForForEver) {
  make_run();
  ASSERT_EQ(mkfifo((folder_ / "fifo").c_str(), 0600), 0);
  Program program(folder_.path(), {"predict", "fifo", "--device", "cpu"});
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
  expect_says(outcome, {"fifo", "a pipe that nobody writes to"});
  // A pipe that gets a writer only after it was opened is read.
  Program reads(folder_.path(), {"predict", "fifo", "--device", "cpu"});
  std::thread writer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    write_file_atomically(folder_ / "fifo",
                          read_text_file(ATHANOR_SOURCE_DIR "/tests/fuzz/corpus/image/grey.png"));
  });
  EXPECT_EQ(reads.wait().exit_code, 0) << read_text_file(folder_ / "stderr");
  writer.join();
}

}  // namespace
}  // namespace athanor
