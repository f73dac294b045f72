// Errors that JavaScript turns into its typed classes by their code.
#pragma once

#include <stdexcept>
#include <string>

namespace mlx_runners {

// `code` is one of the ErrorCode strings of src/errors.ts.
class CodedError : public std::runtime_error {
 public:
  CodedError(const char* code, const std::string& message)
      : std::runtime_error(message), code_(code) {}
  const char* code() const { return code_; }

 private:
  const char* code_;
};

// The code for an exception that MLX threw; it says by its words whether a dtype was meant.
const char* code_of(const std::exception& error);

}  // namespace mlx_runners
