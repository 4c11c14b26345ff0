#include "athanor/base/os/interrupt.h"

#include <csignal>

namespace athanor {
namespace {

volatile std::sig_atomic_t noted = 0;
using Handler = void (*)(int);
int depth = 0;
Handler before_int = SIG_DFL, before_term = SIG_DFL;

extern "C" void note_signal(int signal) {
  noted = signal;
  std::signal(signal, SIG_DFL);  // who asks twice does not want to wait
}

}  // namespace

InterruptScope::InterruptScope() {
  if (depth++ > 0) return;
  noted = 0;
  before_int = std::signal(SIGINT, note_signal);
  before_term = std::signal(SIGTERM, note_signal);
}

InterruptScope::~InterruptScope() {
  if (--depth > 0) return;
  std::signal(SIGINT, before_int);
  std::signal(SIGTERM, before_term);
}

int interrupt_signal() { return noted; }
void deliver_interrupt() {
  if (depth == 0 && noted != 0) std::raise(noted);
}
void request_interrupt(int signal) { noted = signal; }

}  // namespace athanor
