// Whole files: reading them, and writing them so that a crash leaves either the old content or the new.
#pragma once
#include <cstddef>
#include <filesystem>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "athanor/base/error.h"
#include "athanor/base/os/file.h"

namespace athanor {

using Bytes = std::span<const std::byte>;

/// The bytes of a string, without a copy.
inline Bytes bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

/// Opens a file or a pipe to read it. Throws Error(io), also for a folder and for a device, which may never
/// end.
os::File open_to_read(const std::filesystem::path& path);

/// The whole content of a file or pipe, at most `limit` bytes. Throws Error(io) with the system's reason, as
/// open_to_read(), and for a pipe that nothing comes from; Error(value) when it is longer than `limit`, and
/// Error(out_of_memory) when it is larger than this machine's memory.
std::vector<std::byte> read_file(const std::filesystem::path& path, uint64_t limit = UINT64_MAX);
/// The same as text, bytes unchanged.
std::string read_text_file(const std::filesystem::path& path, uint64_t limit = UINT64_MAX);

/// Makes `parts`, one after the other, the content of `path`.
///
/// They are written to "PATH.tmp" beside it, brought to the disk (fsync) and renamed, so that readers, and a
/// machine that loses power, see the old file or the new one; what a killed writer leaves is reused. Writers
/// of the same path wait for each other. A symbolic link is followed; a device or pipe (/dev/stdout) is
/// written directly.
///
/// Throws Error(io): the path, the system's reason, and what to do (for a full disk: how much is needed and
/// how much is free). Then `path` is as it was and the temporary file is gone.
void write_file_atomically(const std::filesystem::path& path, std::span<const Bytes> parts);
void write_file_atomically(const std::filesystem::path& path, std::initializer_list<Bytes> parts);
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

/// The Error(io) for a failed file operation, "cannot VERB the file: REASON (at PATH). HINT". `needed` is the
/// number of bytes to be written, if any.
Error file_error(std::string_view verb, const std::filesystem::path& path, const std::error_code& reason,
                 uint64_t needed = 0);

}  // namespace athanor
