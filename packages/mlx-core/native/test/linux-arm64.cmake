# Builds the tests for Linux on arm64 with Zig's clang, on any system: static programs, which an emulator runs
# without a system around them. ZIG in the environment is the program.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(options -target aarch64-linux-musl)
set(CMAKE_C_COMPILER $ENV{ZIG} cc ${options})
set(CMAKE_CXX_COMPILER $ENV{ZIG} c++ ${options})
