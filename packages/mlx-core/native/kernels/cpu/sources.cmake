# Defines two OBJECT libraries. mlx_runners_cpu_kernels: the fused CPU kernels and their thread pool,
# one kernel source compiled once per instruction set, without MLX. mlx_runners_cpu_primitives: the
# MLX ops on top of them; the including file has called find_package(MLX).

get_filename_component(MLX_RUNNERS_NATIVE_DIR "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)

set(MLX_RUNNERS_CPU_ISAS baseline)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  list(APPEND MLX_RUNNERS_CPU_ISAS avx2 avx2vnni avx512 avx512vnni)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64|ARM64)$")
  list(APPEND MLX_RUNNERS_CPU_ISAS neon neondotprod)
endif()

add_library(
  mlx_runners_cpu_kernels OBJECT
  ${CMAKE_CURRENT_LIST_DIR}/attention.cpp
  ${CMAKE_CURRENT_LIST_DIR}/available_cpus.cpp
  ${CMAKE_CURRENT_LIST_DIR}/dispatch.cpp
  ${CMAKE_CURRENT_LIST_DIR}/matmul.cpp
  ${CMAKE_CURRENT_LIST_DIR}/pool.cpp
  ${CMAKE_CURRENT_LIST_DIR}/quantized_matmul.cpp
  ${CMAKE_CURRENT_LIST_DIR}/rope.cpp
  ${CMAKE_CURRENT_LIST_DIR}/rows.cpp
  ${CMAKE_CURRENT_LIST_DIR}/scratch.cpp)

foreach(isa IN LISTS MLX_RUNNERS_CPU_ISAS)
  target_sources(mlx_runners_cpu_kernels PRIVATE ${CMAKE_CURRENT_LIST_DIR}/isa/${isa}.cpp)
  # Kernels are compiled with full optimisation in every configuration but the sanitized ones:
  # unoptimised intrinsics are a hundred times slower. No errno from sqrt, so that it is one
  # instruction; products and sums are fused where a kernel says so.
  set(isa_flags -O3 -fno-math-errno -ffp-contract=off ${SANITIZE_OPTIMISATION})
  if(isa MATCHES "^avx2")
    list(APPEND isa_flags -mavx2 -mfma -mf16c)
    if(isa STREQUAL "avx2vnni")
      list(APPEND isa_flags -mavxvnni)
    endif()
  elseif(isa MATCHES "^avx512")
    list(APPEND isa_flags -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mf16c
         -mprefer-vector-width=512)
    if(isa STREQUAL "avx512vnni")
      list(APPEND isa_flags -mavx512vnni)
    endif()
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      # False alarms from GCC's own AVX-512 header.
      list(APPEND isa_flags -Wno-uninitialized -Wno-maybe-uninitialized)
    endif()
  elseif(isa STREQUAL "neon")
    list(APPEND isa_flags -mcpu=generic) # macOS's compilers take an M1 for granted
  elseif(isa STREQUAL "neondotprod")
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      list(APPEND isa_flags -march=armv8.2-a+dotprod)
    else()
      list(APPEND isa_flags -mcpu=generic+dotprod) # all that Zig understands
    endif()
  elseif(isa STREQUAL "baseline" AND CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
    list(APPEND isa_flags -msse4.2 -mpopcnt) # x86-64-v2
  endif()
  set_source_files_properties(${CMAKE_CURRENT_LIST_DIR}/isa/${isa}.cpp
                              PROPERTIES COMPILE_OPTIONS "${isa_flags}")
endforeach()

add_library(
  mlx_runners_cpu_primitives OBJECT
  ${CMAKE_CURRENT_LIST_DIR}/attention_operands.cpp
  ${CMAKE_CURRENT_LIST_DIR}/attention_primitive.cpp
  ${CMAKE_CURRENT_LIST_DIR}/composed_attention.cpp
  ${CMAKE_CURRENT_LIST_DIR}/fused_primitive.cpp
  ${CMAKE_CURRENT_LIST_DIR}/glu_primitive.cpp
  ${CMAKE_CURRENT_LIST_DIR}/kv_cache_attention_primitive.cpp
  ${CMAKE_CURRENT_LIST_DIR}/matmul_primitives.cpp
  ${CMAKE_CURRENT_LIST_DIR}/rms_norm_primitives.cpp
  ${CMAKE_CURRENT_LIST_DIR}/rope_primitive.cpp
  ${CMAKE_CURRENT_LIST_DIR}/quantized_primitives.cpp
  ${CMAKE_CURRENT_LIST_DIR}/row_primitives.cpp)
target_link_libraries(mlx_runners_cpu_primitives PUBLIC mlx)

find_package(Threads REQUIRED)
target_link_libraries(mlx_runners_cpu_kernels PUBLIC Threads::Threads ${CMAKE_DL_LIBS})
foreach(library IN ITEMS mlx_runners_cpu_kernels mlx_runners_cpu_primitives)
  set_target_properties(
    ${library}
    PROPERTIES CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF
               POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden
               VISIBILITY_INLINES_HIDDEN ON)
  target_include_directories(${library} PUBLIC ${MLX_RUNNERS_NATIVE_DIR})
endforeach()
