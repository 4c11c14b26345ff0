// Intel's matrix unit (AMX): whether this process may use it, and its registers.
#pragma once

#if defined(__x86_64__) && defined(__linux__)
#define ATHANOR_HAS_AMX 1
#else
#define ATHANOR_HAS_AMX 0
#endif

namespace athanor::cpu {

/// Whether the processor multiplies tiles of bf16 and the system lets this process use them. False on other
/// processors, on systems other than Linux, and if instruction sets are limited to older ones.
bool has_amx();

/// Makes the calling thread's eight tile registers usable: each has 16 rows of 64 bytes. The destructor gives
/// them back, since a thread with tiles in use is slower to interrupt. Only if has_amx().
class AmxTiles {
 public:
  AmxTiles();
  ~AmxTiles();
  AmxTiles(const AmxTiles&) = delete;
  AmxTiles& operator=(const AmxTiles&) = delete;
};

}  // namespace athanor::cpu
