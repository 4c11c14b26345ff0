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

/// Opens a file or a pipe for reading. Throws Error(io), also for a folder, and for a device, because reading
/// it may never end.
os::File open_to_read(const std::filesystem::path& path);

/// The whole content of a file or pipe, at most `limit` bytes. Throws Error(io) as open_to_read(), with the
/// system's reason, and for a pipe that sends nothing; Error(value) if the content is longer than `limit`;
/// and Error(out_of_memory) if it is larger than this machine's memory.
std::vector<std::byte> read_file(const std::filesystem::path& path, uint64_t limit = UINT64_MAX);
/// The same as text, bytes unchanged.
std::string read_text_file(const std::filesystem::path& path, uint64_t limit = UINT64_MAX);

/// Replaces the content of `path` by `parts`, one after the other.
///
/// They are written to "PATH.tmp" in the same folder, flushed to the disk (fsync) and renamed. So readers see
/// either the old file or the new one, also after a power failure. A "PATH.tmp" that a killed writer left is
/// reused. Writers of the same path wait for each other. A symbolic link is followed; a device or pipe
/// (/dev/stdout) is written directly.
///
/// Throws Error(io) with the path, the system's reason, and what to do (for a full disk: how much is needed
/// and how much is free). Then `path` is unchanged and the temporary file is removed.
void write_file_atomically(const std::filesystem::path& path, std::span<const Bytes> parts);
void write_file_atomically(const std::filesystem::path& path, std::initializer_list<Bytes> parts);
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

/// The Error(io) for a failed file operation, "cannot VERB the file: REASON (at PATH). HINT". `needed` is the
/// number of bytes to be written, if any.
Error file_error(std::string_view verb, const std::filesystem::path& path, const std::error_code& reason,
                 uint64_t needed = 0);

}  // namespace athanor
