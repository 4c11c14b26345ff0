// Part-time threads: they help with loops on cores that other programs use.
#pragma once
#include <cstdint>

#include "athanor/backends/cpu/chunks.h"

namespace athanor::cpu {

/// Whether the calling thread runs chunks of such a loop. Loops in them are not divided again.
bool runs_chunks();

/// Runs body(chunk, worker) once for each chunk in [0, chunks): on a team of cpu_threads() threads, one of
/// which is the calling thread, and on part_time_threads() others. Each takes the next chunk when it has
/// finished one. `chunks` is at most Chunks::most; `worker` is below `max_workers`. If chunks throw, the
/// exception of the first of them is thrown here. Returns false, and runs nothing, while another thread runs
/// such a loop.
///
/// A part-time thread works in bursts of half a millisecond and sleeps in between. So it takes no more than
/// its share of a core that another program uses, and the system hardly ever interrupts it in a short chunk.
/// A thread that never slept would be interrupted in a chunk, for a slice of time of the other program, and
/// the team would wait for it (measured: docs/decisions/0005-waiting-threads.md).
bool run_with_part_time_help(int64_t chunks, int max_workers, const Chunks::Body& body);

}  // namespace athanor::cpu
