// What the system says about memory, read from files as Linux writes them.
#include "system/process_memory.h"

#include <cmath>
#include <filesystem>
#include <fstream>

#include "harness.h"

using namespace mlx_runners;
namespace fs = std::filesystem;

namespace {

/// A folder that stands in for /sys/fs/cgroup, with the process's groups in a file of it.
class Groups {
 public:
  explicit Groups(const std::string& lines)
      : root_((fs::temp_directory_path() / "cgroup-XXXXXX").string()) {
    if (!mkdtemp(root_.data())) throw std::runtime_error("no temporary folder");
    write("groups", lines);
  }
  ~Groups() { fs::remove_all(root_); }
  Groups(const Groups&) = delete;
  Groups& operator=(const Groups&) = delete;

  void write(const std::string& name, const std::string& text) {
    const fs::path path = fs::path(root_) / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  double memory() const { return cgroup_memory(root_ + "/groups", root_); }

 private:
  std::string root_;
};

}  // namespace

TEST("without limits there is none") {
  Groups groups("0::/\n");
  EXPECT(std::isinf(groups.memory()));
  groups.write("memory.max", "max\n");
  EXPECT(std::isinf(groups.memory()));
  EXPECT(std::isinf(cgroup_memory("/nowhere/groups", "/nowhere")));
}

TEST("of nested groups the tightest counts") {
  Groups groups("0::/a/b\n");
  groups.write("a/b/memory.max", "max\n");
  groups.write("a/memory.max", "1073741824\n");
  EXPECT_EQUAL(groups.memory(), 1073741824.0);
  groups.write("a/b/memory.max", "536870912\n");
  EXPECT_EQUAL(groups.memory(), 536870912.0);
}

TEST("inside a container the group's path may be the host's") {
  Groups groups("0::/docker/0123\n");
  groups.write("memory.max", "268435456\n");
  EXPECT_EQUAL(groups.memory(), 268435456.0);
}

TEST("version 1 has a hierarchy for each controller") {
  Groups groups("9:name=systemd:/\n5:cpu,cpuacct:/x\n4:memory:/a\n0::/\n");
  groups.write("memory/memory.limit_in_bytes", "9223372036854771712\n");
  groups.write("memory/a/memory.limit_in_bytes", "1000000\n");
  groups.write("cpu/x/memory.limit_in_bytes", "5\n");
  EXPECT_EQUAL(groups.memory(), 1000000.0);
}

TEST("this process has some") {
  EXPECT(process_memory() > (size_t{1} << 26));
  EXPECT(address_space_left() > 0);
}
