# Builds the addon for macOS on arm64 with Zig's clang, on any system. ZIG in the environment is the program.
set(CMAKE_SYSTEM_NAME Darwin)
set(CMAKE_SYSTEM_PROCESSOR arm64)
set(CMAKE_OSX_SYSROOT "" CACHE STRING "")
set(CMAKE_USER_MAKE_RULES_OVERRIDE ${CMAKE_CURRENT_LIST_DIR}/rules.cmake)

# Without debug information, which would name folders of this machine.
set(options -target aarch64-macos.14.0 -g0 -s)
set(CMAKE_C_COMPILER $ENV{ZIG} cc ${options})
# Zig's headers would use what only later versions of the C++ library have: keep to what macOS 14 has.
set(CMAKE_CXX_COMPILER
  $ENV{ZIG} c++ ${options}
  -U_LIBCPP_HAS_VENDOR_AVAILABILITY_ANNOTATIONS -D_LIBCPP_HAS_VENDOR_AVAILABILITY_ANNOTATIONS=1)
# That library is the system's, as libmlx's is: with two of them in a process, one would not catch the other's
# exceptions. Its symbols are found when the addon is loaded, like Node's.
set(CMAKE_SHARED_LINKER_FLAGS_INIT -nostdlib++)
