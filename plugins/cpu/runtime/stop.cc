#include "cpu/runtime/stop.h"

#include <algorithm>
#include <vector>

namespace ephost::cpu {
namespace {

struct Question {
  bool (*stops)(const void*, const void*);
  const void *host, *run;
};
thread_local std::vector<Question> questions;

}  // namespace

void begin_stoppable(bool (*stops)(const void*, const void*), const void* host, const void* run) {
  questions.push_back({stops, host, run});
}

void end_stoppable(const void* run) {
  const auto last =
      std::find_if(questions.rbegin(), questions.rend(), [&](const Question& q) { return q.run == run; });
  if (last != questions.rend()) questions.erase(std::next(last).base());
}

bool stop_asked() {
  return !questions.empty() && questions.back().stops(questions.back().host, questions.back().run);
}

void check_stop() {
  if (stop_asked()) throw Stopped();
}

}  // namespace ephost::cpu
