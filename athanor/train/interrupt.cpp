#include "athanor/train/interrupt.h"

#include <csignal>

namespace athanor {
namespace {

volatile std::sig_atomic_t noted = 0;
using Handler = void (*)(int);
Handler before_int = SIG_DFL, before_term = SIG_DFL;

extern "C" void note_signal(int signal) {
  noted = signal;
  std::signal(signal, SIG_DFL);  // who asks twice does not want to wait
}

}  // namespace

InterruptScope::InterruptScope() {
  noted = 0;
  before_int = std::signal(SIGINT, note_signal);
  before_term = std::signal(SIGTERM, note_signal);
}

InterruptScope::~InterruptScope() {
  std::signal(SIGINT, before_int);
  std::signal(SIGTERM, before_term);
}

int interrupt_signal() { return noted; }
void request_interrupt(int signal) { noted = signal; }

}  // namespace athanor
