#include "harness.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

namespace mlx_runners::testing {
namespace {

struct Test {
  const char* name;
  void (*body)();
};

std::vector<Test>& tests() {
  static std::vector<Test> all;
  return all;
}

Options& mutable_options() {
  static Options chosen;
  return chosen;
}

enum class Outcome { kPassed, kFailed, kSkipped };

Outcome run(const Test& test) {
  std::string reason;
  Outcome outcome = Outcome::kPassed;
  try {
    test.body();
  } catch (const Skip& skip) {
    outcome = Outcome::kSkipped;
    reason = skip.what();
  } catch (const std::exception& error) {
    outcome = Outcome::kFailed;
    reason = error.what();
  }
  static constexpr const char* words[] = {"passed", "FAILED", "skipped"};
  std::printf("%s: %s%s%s\n", words[static_cast<int>(outcome)], test.name,
              reason.empty() ? "" : ": ", reason.c_str());
  std::fflush(stdout);
  return outcome;
}

[[noreturn]] void misuse(const std::string& problem) {
  std::fprintf(stderr, "%s\nusage: [--list] [--scale X] [--cases N] [--seed S] [NAME]...\n",
               problem.c_str());
  std::exit(2);
}

template <class T>
void read_number(std::string_view option, const char* text, T& number) {
  std::istringstream stream(text == nullptr ? "" : text);
  if (!(stream >> number) || !stream.eof()) misuse(std::string(option) + " needs a number");
}

}  // namespace

const Options& options() { return mutable_options(); }

Registration::Registration(const char* name, void (*body)()) { tests().push_back({name, body}); }

void expect(bool holds, const char* what, const char* file, int line) {
  if (!holds) throw Failure(std::string(file) + ':' + std::to_string(line) + ": not " + what);
}

int main(int argc, char** argv) {
  std::vector<Test> chosen;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument(argv[i]);
    if (argument == "--list") {
      for (const Test& test : tests()) std::puts(test.name);
      return 0;
    }
    if (argument == "--scale") {
      read_number(argument, argv[++i], mutable_options().scale);
    } else if (argument == "--cases") {
      read_number(argument, argv[++i], mutable_options().cases);
    } else if (argument == "--seed") {
      read_number(argument, argv[++i], mutable_options().seed);
    } else {
      const auto named = std::find_if(tests().begin(), tests().end(),
                                      [&](const Test& test) { return argument == test.name; });
      if (named == tests().end()) misuse("there is no test named " + std::string(argument));
      chosen.push_back(*named);
    }
  }
  if (chosen.empty()) chosen = tests();
  bool failed = false;
  bool passed = false;
  for (const Test& test : chosen) {
    const Outcome outcome = run(test);
    failed = failed || outcome == Outcome::kFailed;
    passed = passed || outcome == Outcome::kPassed;
  }
  return failed ? 1 : passed ? 0 : 77;
}

}  // namespace mlx_runners::testing

int main(int argc, char** argv) { return mlx_runners::testing::main(argc, argv); }
